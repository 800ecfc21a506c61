# Copyright (c) QB-Heat MM authors. All rights reserved.
from .auto_scale_runner import AutoScaleRunner
from .schedules import fit_schedulers

__all__ = ['AutoScaleRunner', 'fit_schedulers']
