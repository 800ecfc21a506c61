# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Export networks as safetensors, torch.export or ONNX.

    from qbheat_mm.apis import load_encoder
    from qbheat_mm.export import export_encoder, export_network

    encoder = load_encoder('encoder.safetensors')
    export_encoder(encoder, 'encoder.safetensors')
    export_network(encoder, 'encoder.onnx', preprocessing=True)
"""
import importlib

# Imported on first use: importing the package registers only the hook.
_MODULES = dict(
    ExportEncoderHook='.hook', Exported='.exported',
    export_encoder='..trained.encoder_file', export_network='.programs',
    load_model='..trained.model')
__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(_MODULES[name], __name__),
                   name)
