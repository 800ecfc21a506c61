# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a study runs on: GPUs, the names rows are marked by, versions."""
import os
import platform
from collections.abc import Sequence

import torch

from qbheat_mm.errors import UserError


def default_devices() -> list[str]:
    """All GPUs, else the CPU."""
    return [f'cuda:{i}' for i in range(torch.cuda.device_count())] or ['cpu']


def kind_of(device: str) -> str:
    """The name of a GPU, as the driver gives it, or 'cpu'.

    Raises:
        UserError: It is neither; nothing else can be kept to a run.
    """
    kind = torch.device(device).type
    if kind == 'cpu':
        return kind
    if kind == 'cuda':
        return torch.cuda.get_device_name(device)
    raise UserError(f"--device '{device}': a study runs on GPUs of CUDA or on "
                    "the CPU, give 'cuda', 'cuda:1' or 'cpu'")


def machine(devices: Sequence[str]) -> str:
    """What rows are marked by: the kind of GPU, else 'cpu'.

    Raises:
        UserError: The devices are of several kinds, or of other kinds.
    """
    kinds = {device: kind_of(device) for device in devices}
    if len(set(kinds.values())) > 1:
        named = ', '.join(f"'{name}' ({kind})" for name, kind in kinds.items())
        raise UserError(f'--device {named}: rows of a study are of one kind '
                        'of device, give such')
    return kinds[devices[0]]


def visible(devices: Sequence[str]) -> list[str]:
    """The values of ``CUDA_VISIBLE_DEVICES`` under which each is the only.

    Devices are counted among those that this process sees.
    """
    listed = os.environ.get('CUDA_VISIBLE_DEVICES')
    names = listed.split(',') if listed else None

    def value(device: str) -> str:
        wanted = torch.device(device)
        if wanted.type == 'cpu':
            return '-1'
        index = wanted.index or 0
        return names[index] if names else str(index)

    return [value(device) for device in devices]


def environment(threads: str) -> str:
    """Cores, processor, threads of a run and versions, in words."""
    return (f'{os.cpu_count()} cores {platform.machine()}, threads '
            f'{threads}, torch {torch.__version__}, Python '
            f'{platform.python_version()}')
