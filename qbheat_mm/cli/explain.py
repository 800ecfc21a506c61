# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which errors are the user's or the machine's, and what to say of them.

Where the border runs: told in one line is

- every :class:`UserError`;
- what the operating system refuses (``OSError``), memory that is not enough,
  workers that were killed, processes that find no other or lose one;
- **whatever is raised while something is built from a configuration**, its
  data sets read and its weights initialised: what is wrong there is a setting
  or a file;
- what a data pipeline raises on a sample;
- in the model's forward pass, tensors that do not fit each other: parts whose
  settings do not agree.

Everything else, so what is raised in a training step, in an evaluation or in
a tool itself, is a defect and keeps its traceback.
"""
import errno
import os.path as osp
import re
import traceback
from collections.abc import Iterator
from types import FrameType

import torch.distributed as dist
from torch import nn

from ..errors import UserError

#: Set to 1 to see where an error that is told in one line came from.
TRACEBACK = 'QBHEAT_TRACEBACK'

_HINTS = {
    errno.ENOSPC: 'free space on the disk, or give another folder '
                  '(--work-dir)',
    errno.EDQUOT: 'free space, or give another folder (--work-dir)',
    errno.EROFS: 'give a folder that can be written (--work-dir)',
    errno.EACCES: 'change its permissions or give another path',
    errno.ENAMETOOLONG: 'give a shorter name (--work-dir)',
    errno.ENOTDIR: 'a file stands where a folder is needed',
    errno.EEXIST: 'something else stands where a folder is needed',
    errno.EISDIR: 'a folder stands where a file is needed',
    errno.ELOOP: 'links point to each other in a circle',
    errno.EMFILE: 'lower num_workers, or raise the limit with `ulimit -n`',
    errno.EADDRINUSE: 'choose another port (PORT=29501)',
}
_MEMORY = re.compile(
    "out of memory|not enough memory|can't allocate memory|ALLOC_FAILED", re.I)
_WORKER = re.compile(
    r'DataLoader worker .*(killed|exited)|shared memory|Bus error')
# gloo, then NCCL.
_STOPPED = re.compile(
    'Connection (closed|reset) by peer|Broken pipe|remote process exited|'
    'Timed out waiting .* operation|NCCL communicator was aborted', re.I)
_NO_SAMPLE = re.compile(
    'Test time pipline should not get|Cannot find valid image after')
_SHAPES = re.compile(
    'cannot be multiplied|to have .* channels|must match|size mismatch|'
    'should contain .* elements|normalized_shape|is invalid for input|'
    "Given groups|expected input|Kernel size can't|output size is too small|"
    "don't multiply up|unflatten|batch2 tensor|incompatible|"
    'not divisible|non-empty|expanded size|out of range|out of bounds|'
    'split_sizes|not enough values to unpack|too many values to unpack', re.I)
# Names of functions, by packages, that build parts from a configuration.
_BUILDERS = re.compile(
    r'[/\\](mmengine|mmdet|mmpretrain|qbheat_mm)[/\\].* (build_\w+|from_cfg|'
    r'scale_lr|setup_env|set_randomness|register_\w*hooks?|full_init|'
    r'_init_model_weights|init_weights|initialize)$|'
    r'[/\\]mmengine[/\\]runner[/\\].* __init__$')


def explain(error: Exception) -> str | None:
    """One line for an error that is not a defect, else None."""
    if isinstance(error, UserError):
        return _message(error)
    for kind in (_memory, _worker, _network, _others, _pipeline, _system,
                 _building, _parts):
        line = kind(error)
        if line is not None:
            return f'{_one_line(line)} ({TRACEBACK}=1 shows where)'
    return None


def describe(error: Exception) -> str:
    """Type and message of an error, on one line."""
    return f'{type(error).__name__}: {_message(error)}'.removesuffix(': ')


def _message(error: Exception) -> str:
    """The message, without what others have put around it."""
    # str() of a KeyError is in quotes.
    text = str(error.args[0]) if (
        isinstance(error, KeyError) and error.args) else str(error)
    # What a worker of a data loader raises arrives with its traceback as
    # text, whose last line is the message.
    if 'Original Traceback' in text:
        text = text.strip().split('\n')[-1]
    name = type(error).__name__
    text = text.removeprefix(f'{type(error).__module__}.{name}: ')
    text = text.removeprefix(f'{name}: ')
    # mmengine puts the class before each message, some versions do.
    text = re.sub(r'^(class `\w+` in [\w/.]+: )+', '', text)
    return _one_line(text)


def _one_line(text: str) -> str:
    return ' '.join(text.split())


def _memory(error: Exception) -> str | None:
    if not isinstance(error, RuntimeError | MemoryError) or not (
            isinstance(error, MemoryError) or _MEMORY.search(str(error))):
        return None
    what = _message(error).split('. ')[0]
    return (f'out of memory ({what[:120]}): lower train_dataloader.batch_size '
            '(and raise optim_wrapper.accumulative_counts by the same factor '
            'to keep the step) or the size of the images, train with --amp, '
            'or, where memory of the CPU is short, lower num_workers')


def _worker(error: Exception) -> str | None:
    if not isinstance(error, RuntimeError | OSError) or not _WORKER.search(
            str(error)):
        return None
    return (f'{_message(error)[:200]}: a worker that loads data was stopped, '
            'mostly for want of memory or of shared memory (/dev/shm): lower '
            'num_workers and prefetch_factor of the dataloader, or run the '
            'container with --ipc=host or a larger --shm-size')


def _network(error: Exception) -> str | None:
    names = {frame.f_code.co_name for frame in _frames(error)}
    if not names & {'init_process_group', 'init_dist', '_init_dist_pytorch'}:
        return None
    return (f'the processes of this run could not be connected '
            f'({describe(error)[:200]}): MASTER_ADDR and MASTER_PORT must '
            'name one free port on the first machine, the same for all; '
            'tools/dist_train.sh sets them (PORT=29501 for another port)')


def _others(error: Exception) -> str | None:
    """What processes raise that wait for one that has stopped."""
    if not isinstance(error, RuntimeError) or not _STOPPED.search(
            str(error)) or not dist.is_available() or (
                not dist.is_initialized()):
        return None
    return (f'another process of this run has stopped '
            f'({_message(error)[:120]}): mend what its own line says, above '
            'or below this one or in the log of its machine')


def _system(error: Exception) -> str | None:
    if not isinstance(error, OSError):
        return None
    text = _message(error)
    if error.errno is not None and error.filename is None:
        file = _file_of(error)
        text += f": '{file}'" if file else ''
    hint = _HINTS.get(error.errno)
    return f'{text}: {hint}' if hint else text


def _pipeline(error: Exception) -> str | None:
    """What a transform raises, in this process or in a worker."""
    if isinstance(error, OSError):
        return None
    steps = re.findall(r'File "(.*)", line \d+, in (\w+)', str(error))
    steps += [(frame.f_code.co_filename, frame.f_code.co_name)
              for frame in _frames(error)]
    names = [name for _, name in steps]
    if 'collate' in ' '.join(names) and 'equal size' in str(error):
        return (f'{_message(error)}: the images of a batch differ in size: '
                'end the pipeline with a crop or a resize to one size')
    if '__getitem__' in names and _NO_SAMPLE.search(str(error)):
        return ('the data pipeline gave no sample: an image that cannot be '
                'loaded was skipped (ignore_empty=True, see the warning '
                'above), which validation and test do not allow, and training '
                'not for all images: mend the data, or take ignore_empty out '
                'of that pipeline')
    if 'prepare_data' not in names:
        return None
    transforms = [osp.basename(file) for file, name in steps
                  if name == 'transform']
    where = f' (in {transforms[-1]})' if transforms else ''
    return (f'the data pipeline failed on a sample{where}: '
            f'{describe(error)}; check the settings of dataset.pipeline and '
            'the data')


def _building(error: Exception) -> str | None:
    """What is raised while a part is built from the configuration."""
    built = None
    for frame in _frames(error):
        if _BUILDERS.search(
                f'{frame.f_code.co_filename} {frame.f_code.co_name}'):
            part = frame.f_locals.get('obj_cls')
            built = getattr(part, '__name__', built or 'the run')
    if built is None:
        return None
    # mmengine's message names the misspelt type and its registry.
    if 'is not in the' in str(error):
        return _message(error)
    return (f'{built} cannot be built from the configuration: '
            f'{describe(error)}')


def _parts(error: Exception) -> str | None:
    """Tensors that do not fit, with the part of the model they met in."""
    if not isinstance(error, RuntimeError | ValueError | IndexError
                      | AssertionError):
        return None
    modules = [frame.f_locals['self'] for frame in _frames(error)
               if isinstance(frame.f_locals.get('self'), nn.Module)]
    asserted = _asserted(error)
    text = _message(error) or asserted
    if not modules:
        return None
    if 'more than 1 value per channel' in text:
        if any(isinstance(module, nn.GroupNorm) for module in modules):
            return (f'{text}: a group of GroupNorm has one value of an image: '
                    'give its layer more channels, or take larger images')
        return (f'{text}: batch normalization needs 2 images at least: raise '
                'train_dataloader.batch_size, or set drop_last=True of it (of '
                'its batch_sampler where it has one)')
    if not (asserted or _SHAPES.search(text)):
        return None
    names = {id(module): name
             for name, module in modules[0].named_modules(prefix='model')}
    name = next((names[id(module)] for module in reversed(modules)
                 if id(module) in names), 'model')
    return (f'the parts of the model, or the data and the model, do not fit '
            f'together in {name} ({type(modules[-1]).__name__}): {text}; '
            'compare its widths, channels, sizes and numbers of classes with '
            'those of the part before it')


def _asserted(error: Exception) -> str:
    """What was asserted without a message in a part's forward pass."""
    if not isinstance(error, AssertionError) or str(error):
        return ''
    last = traceback.extract_tb(error.__traceback__)[-1]
    line = last.line or ''
    return line if last.name == 'forward' and line.startswith('assert') else ''


def _frames(error: Exception) -> Iterator[FrameType]:
    """Frames of an error, the outermost first."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield frame


def _file_of(error: Exception) -> str | None:
    """The file that the innermost function dealt with, if one tells."""
    for frame in reversed(list(_frames(error))):
        for name in ('filepath', 'filename', 'path', 'file', 'out'):
            if isinstance(frame.f_locals.get(name), str):
                return frame.f_locals[name]
    return None

