# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Keep the console short; the log file has every message."""
import logging
import re

from mmengine.logging import MMLogger
from mmengine.registry import LOG_PROCESSORS
from mmengine.runner import LogProcessor, Runner

#: Messages that repeat, for each parameter or epoch, or that only developers
#: can act on.
_FILE_ONLY = ('paramwise_options', 'Exp name: ', '"FileClient"',
              '"HardDiskBackend"')


def shorten_console(logger: MMLogger) -> None:
    """Keep long reports off the console, unless the level is DEBUG."""
    for handler in logger.handlers:
        if not isinstance(handler, logging.FileHandler) and (
                handler.level > logging.DEBUG):
            handler.addFilter(_is_for_console)


def _is_for_console(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if record.filename == 'runner.py':  # mmengine's reports on the whole run
        return '\n' not in text
    return not text.startswith(_FILE_ONLY) and ' is skipped since' not in text


@LOG_PROCESSORS.register_module()
class ThroughputLogProcessor(LogProcessor):
    """Log images per second of all processes instead of seconds per step.

    Seconds and the losses of single decoder layers are in the JSON log.
    """

    def get_log_after_iter(self, runner: Runner, batch_idx: int,
                           mode: str) -> tuple[dict, str]:
        """See ``LogProcessor``."""
        tag, line = super().get_log_after_iter(runner, batch_idx, mode)
        if mode != 'train':
            return tag, line
        parts = [part for part in line.split('  ')
                 if not re.match(r'data_time: |d\d+\.', part)]
        for i, part in enumerate(parts):
            if part.startswith('time: '):
                parts[i] = self._speed(runner, tag)
        return tag, '  '.join(parts)

    def _speed(self, runner: Runner, tag: dict) -> str:
        prefix = 'train/' if self.log_with_hierarchy else ''
        step, waiting = (tag[f'{prefix}{name}']
                         for name in ('time', 'data_time'))
        # The loader itself has no batch size if it has a batch sampler.
        images = runner.train_dataloader.batch_sampler.batch_size
        waits = (f' (waits {waiting / step:.0%} of the time for images)'
                 if waiting > step / 4 else '')
        return f'images/s: {images * runner.world_size / step:.4g}{waits}'
