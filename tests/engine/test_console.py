# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A short console, a complete log file, readable progress lines."""
import pytest
from mmengine.logging import MMLogger

from qbheat_mm.engine.console import shorten_console

from .runs import build

REPORTS = ['fc.bias is skipped since its requires_grad=False', 'Exp name: x',
           '"FileClient" will be deprecated',
           'paramwise_options -- neck.bias:weight_decay=0.0']


@pytest.mark.parametrize('level, shown', [('INFO', 0), ('DEBUG', 4)])
def test_long_reports_are_in_the_log_file(tmp_path, capsys, level, shown):
    logger = MMLogger.get_instance(
        level, log_file=str(tmp_path / 'a.log'), log_level=level)
    shorten_console(logger)
    for text in [*REPORTS, 'loaded']:
        logger.warning(text)
    printed = capsys.readouterr().out
    written = (tmp_path / 'a.log').read_text()
    assert 'loaded' in printed and 'loaded' in written
    assert sum(text in printed for text in REPORTS) == shown
    assert all(text in written for text in REPORTS)


@pytest.mark.parametrize('waiting, words', [
    (0.4, 'images/s: 4 (waits 80% of the time for images)'),
    (0.1, 'images/s: 4')])
def test_a_progress_line(tmp_path, waiting, words):
    runner = build(tmp_path, log_processor=dict(type='ThroughputLogProcessor'))
    assert len(runner.train_loop.dataloader) == 2  # batches of two
    hub = runner.message_hub
    for name, value in dict(time=0.5, data_time=waiting, lr=0.1, loss=3.,
                            loss_cls=1., **{'d0.loss_cls': 2.}).items():
        hub.update_scalar(f'train/{name}', value)
    hub.update_info('eta', 60)
    tag, line = runner.log_processor.get_log_after_iter(runner, 0, 'train')
    assert line == ('Epoch(train) [1][1/2]  lr: 1.0000e-01  eta: 0:01:00  '
                    f'{words}  loss: 3.0000  loss_cls: 1.0000')
    assert tag['time'] == 0.5 and tag['d0.loss_cls'] == 2
