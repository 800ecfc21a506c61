# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Devices of torch."""
import torch

from ..errors import UserError


def require_device(name: str | torch.device) -> None:
    """Raise unless a device can be used here.

    Raises:
        UserError: Naming those that are there.
    """
    there = ['cpu', *(f'cuda:{i}' for i in range(torch.cuda.device_count()))]
    try:
        if torch.device(name).type == 'meta':
            raise RuntimeError('which holds no values')
        torch.empty(0, device=name)
    # Each backend that is not there has an error of its own.
    except Exception as error:
        raise UserError(f"'{name}' is no device that can be used here: there "
                        f'are {", ".join(there)}') from error
