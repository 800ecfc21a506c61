# Copyright (c) QB-Heat MM authors. All rights reserved.
from .fitting_runner import FittingRunner
from .schedules import fit_schedulers

__all__ = ['FittingRunner', 'fit_schedulers']
