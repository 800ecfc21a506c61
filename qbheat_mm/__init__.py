# Copyright (c) QB-Heat MM authors. All rights reserved.
"""QB-Heat on the OpenMMLab toolboxes.

Importing this package registers the backbone, the pre-training and the
classification parts; it needs neither mmdet nor mmcv's compiled ops. The
detection parts are registered by ``import qbheat_mm.detection``.
"""
import importlib
import sys

from .version import __version__

__all__ = ['__version__']


# Commands that must run where the toolboxes are missing or broken.
_FOR_ENVIRONMENTS = ('qbheat_mm.check_env', 'qbheat_mm.build_mmcv')


def _mends_the_environment() -> bool:
    """Whether this import belongs to ``python -m qbheat_mm.check_env``.

    Or to another such command. While ``python -m`` imports a module's parent
    package, ``sys.argv[0]`` is still ``'-m'`` and only ``sys.orig_argv``
    knows the module's name.
    """
    return sys.argv[:1] == ['-m'] and any(
        arg.endswith(_FOR_ENVIRONMENTS) for arg in sys.orig_argv)


def _require_toolboxes() -> None:
    """Raise one line that names the way out where a toolbox is missing."""
    for name in ('torch', 'mmengine', 'mmcv', 'mmpretrain'):
        try:
            importlib.import_module(name)
        # A broken installation fails as ImportError, OSError (libraries),
        # RuntimeError (torchvision's operators) or AssertionError (versions).
        except Exception as error:
            raise ImportError(
                f'qbheat_mm needs {name}, whose import failed '
                f'({type(error).__name__}: {error}). The command '
                '`python -m qbheat_mm.check_env` says how to mend it.'
            ) from error


if not _mends_the_environment():
    _require_toolboxes()
    from . import datasets, engine, evaluation, models  # noqa: F401
    from .analysis import hook as analysis_hook  # noqa: F401
    from .export import hook as export_hook  # noqa: F401
    from .model_index import register_models

    register_models()
