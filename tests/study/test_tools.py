# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The command lines of the study's tools: whose rows, and where."""
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from torch.utils.data import DataLoader

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / 'tools/study'
TWO_ARMS = Path(__file__).parent / 'two_arms.py'
ROWS = ROOT / 'docs/evidence/results.jsonl'


def tool(name, *arguments, function=None, inputs=()):
    """Run a tool, or one function of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        patch.setattr(sys, 'argv', [name, *map(str, arguments)])
        found = runpy.run_path(str(TOOLS / f'{name}.py'),
                               run_name='tool' if function else '__main__')
        return found[function](*inputs) if function else found


@pytest.mark.parametrize('arguments, named', [
    (['--seeds', 99], 'no run of the study is of these'),
    (['--only', 'detector', '--probes', 'lin'], 'no run of the study'),
    (['--only', 'qbhaet'], '--only qbhaet: the arms are qbheat, '),
    (['--probes', 'linear'], '--probes linear: give some of encoder, lin'),
    (['--study', TWO_ARMS], 'give --results another file'),
    (['--study', TWO_ARMS, '--results', ROWS], 'give --results another file'),
    (['--cfg-options', 'a.b=1'], 'give --results another file'),
])
def test_what_is_refused(arguments, named):
    with pytest.raises(SystemExit, match=named):
        tool('run', '--plan', *arguments)


def test_the_shipped_study_by_its_path_is_the_shipped_study(
        monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    tool('run', '--plan', '--study', 'tools/study/arms.py')
    assert 'QB-Heat' in capsys.readouterr().out


def test_a_plan_of_nothing_says_so(tmp_path, capsys):
    study = tmp_path / 'study.py'
    study.write_text("""from projects.drawn_world.study import Arm, Probe, Study
STUDY = Study((Arm('a', '', 'a.py', seeds=1), ), ())""")
    rows = tmp_path / 'rows.jsonl'
    rows.write_text('{"arm": "a", "seed": 0, "stage": "encoder", "metrics": '
                    '{}, "seconds": 1, "machine": "cpu"}\n')
    tool('run', '--plan', '--study', study, '--results', rows, '--device',
         'cpu')
    assert capsys.readouterr().out.splitlines()[-1] == '0 to run'


def test_studies_do_not_share_encoders(tmp_path, monkeypatch):
    """Arms of the same name need not be the same."""
    monkeypatch.chdir(tmp_path)
    where = {rows: tool('run', *(['--results', rows] if rows else []),
                        function='parse_args').work_dir
             for rows in (None, ROWS, 'a/rows.jsonl', 'a/more.jsonl')}
    assert where[None] == where[ROWS] == tmp_path / 'work_dirs/study'
    assert len(set(where.values())) == 3
    given = tool('run', '--results', 'a/rows.jsonl', '--work-dir', 'here',
                 function='parse_args')
    assert given.work_dir == tmp_path / 'here'


def test_a_report_does_not_replace_that_of_another_study(tmp_path):
    page = (ROOT / 'docs/evidence.md').read_bytes()
    for more in ([], ['--results', ROWS]):
        with pytest.raises(SystemExit, match='give --results another file'):
            tool('report', '--study', TWO_ARMS, *more)
    assert (ROOT / 'docs/evidence.md').read_bytes() == page
    rows = tmp_path / 'rows.jsonl'
    rows.write_text('{"arm": "base", "seed": 0, "stage": "lin", "metrics": '
                    '{"top-1": 1}, "seconds": 1, "machine": "cpu"}\n')
    tool('report', '--study', TWO_ARMS, '--results', rows, '--machine', 'cpu')
    assert (tmp_path / 'evidence.md').exists()
    assert (ROOT / 'docs/evidence.md').read_bytes() == page


@pytest.mark.parametrize('kept, images', [
    (99, range(10)), (4, range(0, 10, 3)), (1, [0])])
def test_maps_of_some_images_and_pooled_features_of_all(kept, images):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        extract = runpy.run_path(str(TOOLS / 'features.py'))['extract']
    extract.__wrapped__.__globals__['MAPS'] = kept
    pictures = torch.randn(10, 3, 4, 4)
    loader = DataLoader(
        list(range(10)), 3, collate_fn=lambda numbers: dict(
            inputs=[pictures[i] for i in numbers],
            data_samples=[SimpleNamespace(gt_label=i) for i in numbers]))
    encoder = SimpleNamespace(
        pixels=SimpleNamespace(normalize=lambda batch: batch),
        backbone=lambda batch: (batch, batch.flatten(2)))
    pooled, labels, maps, tokens = extract(encoder, loader)
    assert torch.equal(pooled, pictures.mean(dim=(2, 3)))
    assert labels.tolist() == list(range(10))
    assert torch.equal(maps, pictures[list(images)])
    assert torch.equal(tokens, maps.flatten(2))


def test_neighbours_are_the_images_of_training_and_not_augmented():
    cfg = Config(dict(
        train_dataloader=dict(dataset=dict(split='train', pipeline=['crop'])),
        val_dataloader=dict(dataset=dict(split='val', pipeline=['whole']))))
    settings = tool('features', function='settings_of_loaders', inputs=[cfg])
    assert [each['dataset'] for each in settings] == [
        dict(split=split, pipeline=['whole']) for split in ('train', 'val')]
