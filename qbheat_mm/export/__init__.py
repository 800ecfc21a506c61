# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Networks for other programs: safetensors, torch.export, ONNX, state dicts.

Nothing of ONNX and mmdet is imported before it is needed.
"""
from .encoder_file import export_encoder
from .network import (
    ExportedFile,
    Traced,
    export_network,
    trace_network,
    write_network,
)
from .running import Exported
from .state_dict import StateDict, export_state_dict

__all__ = [
    'Exported', 'ExportedFile', 'StateDict', 'Traced', 'export_encoder',
    'export_network', 'export_state_dict', 'trace_network', 'write_network'
]
