# Copyright (c) QB-Heat MM authors. All rights reserved.
"""QB-Heat on the OpenMMLab toolboxes.

Importing this package registers encoders, pre-training and classification,
without mmdet and mmcv's compiled ops; ``import qbheat_mm.detection`` registers
the detectors. The import adds to the toolboxes and replaces nothing in them;
it turns mmpretrain's multimodal models off where they can't be imported.
"""
import importlib
import sys
import warnings

from .version import __version__

__all__ = ['__version__']

# Warnings about torch's and the toolboxes' own code: users can't act on them.
for _message in ('Fail to import ``MultiScaleDeformableAttention``',
                 'pkg_resources is deprecated', 'torch.meshgrid',
                 'To copy construct from a tensor',
                 'Grad strides do not match bucket view strides',
                 '`broadcast_buffers` is deprecated', '# The axis name: ',
                 'DeprecationWarning: `num_anchors` is deprecated',
                 r'Warning: The (bbox|polygon) is out of bounds',
                 r'`isinstance\(treespec, LeafSpec\)` is deprecated'):
    warnings.filterwarnings('ignore', _message)
warnings.filterwarnings('ignore', 'invalid escape sequence', SyntaxWarning,
                        r'.*\bmm(det|pretrain)\b')


def _repairs_the_environment() -> bool:
    """Whether ``python -m`` runs the check, or the build of mmcv.

    While it imports the module's parent package, ``sys.argv[0]`` is still
    ``'-m'`` and only ``sys.orig_argv`` has the module's name.
    """
    if sys.argv[:1] != ['-m']:
        return False
    for arg in sys.orig_argv:
        if arg.endswith(('qbheat_mm.check_env', 'qbheat_mm.build_mmcv')):
            return True
    return False


def _require_toolboxes() -> None:
    """Raise an error that says what to do if a toolbox is missing."""
    for name in ('torch', 'mmengine', 'mmcv', 'mmpretrain'):
        try:
            importlib.import_module(name)
        # A broken installation fails with ImportError, OSError (libraries),
        # RuntimeError (torchvision's operators) or AssertionError (versions).
        except Exception as error:
            raise ImportError(
                f'qbheat_mm needs {name}, whose import failed '
                f'({type(error).__name__}: {error}). To fix it, run '
                '`python -m qbheat_mm.check_env`') from error


def _allow_recent_transformers() -> None:
    """Turn mmpretrain's multimodal models off where they would fail.

    ``mmpretrain.models`` imports them if transformers is installed, but they
    are incompatible with transformers 4.52 and later.
    """
    from mmpretrain.utils import dependency
    if dependency.satisfy_requirement('transformers>=4.52'):
        dependency.WITH_MULTIMODAL = False


def _register() -> None:
    """Register all parts."""
    _require_toolboxes()
    _allow_recent_transformers()
    for name in ('datasets.image_folder', 'datasets.transforms', 'engine',
                 'models', 'teacher', 'trained', 'analysis.hook',
                 'export.hook'):
        importlib.import_module(f'.{name}', __name__)
    from .config.model_index import register_models
    register_models()


if not _repairs_the_environment():
    _register()
