# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Arguments of the tools that cannot be."""
from argparse import ArgumentParser

import pytest

from qbheat_mm.cli import count, device, folder
from qbheat_mm.cli.command_line import add_cfg_options, quoted


@pytest.mark.parametrize('text, value', [
    ('my images/x y.pth', 'my images/x y.pth'),
    ("'a, b'", 'a, b'), (quoted('/a,b/c d.pth'), '/a,b/c d.pth'),
    ('(old) images', '(old) images'), ('[a] b (c)', '[a] b (c)'),
    ('photos (a, b)/x', 'photos (a, b)/x'), ('(a)/(b)', '(a)/(b)'),
    ("('red','green thing','blue')", ('red', 'green thing', 'blue')),
    ('[red , green thing]', ['red', 'green thing']),
    ("['a, b', 'c']", ['a, b', 'c']), ('red, green thing',
                                      ['red', 'green thing']),
    ('photos (a), b', ['photos (a)', 'b']), ('(1,2), (3, 4)',
                                            [(1, 2), (3, 4)]),
    ('[( a b ,2), [ 3, c d ]]', [('a b', 2), [3, 'c d']]),
    ('(5)', (5, )), ('()', ()), ('[1e-4, None, true]', [1e-4, None, True]),
    # as mmengine reads them
    ('1,2', [1, 2]), ('a, b', ['a', 'b']), ('[(1, 2), [a, b]]',
                                            [(1, 2), ['a', 'b']]),
    ('"[8, 16]"', [8, 16]), ('3', 3), ('1e-4', 1e-4), ('True', True),
    ('None', None), ('"7"', 7), ('', ''),
    # which mmengine does not read
    ("{'max_norm': 3.0}", dict(max_norm=3.)), ('{}', {}),
    ("[{'type': 'A b'}, {'x': [1, 2]}]", [dict(type='A b'), dict(x=[1, 2])]),
])
def test_values_of_settings(text, value):
    parser = ArgumentParser()
    add_cfg_options(parser)
    assert parser.parse_args(
        ['--cfg-options', f'key={text}']).cfg_options == {'key': value}


def test_dicts_that_no_python_reads(capsys):
    parser = ArgumentParser()
    add_cfg_options(parser)
    for text in ('{max_norm:3}', "[{'type': A}]", "{'a': 1}, {]"):
        with pytest.raises(SystemExit):
            parser.parse_args(['--cfg-options', f'key={text}'])
        last = capsys.readouterr().err.strip().split('\n')[-1]
        assert f'{text} cannot be read: write dicts' in last


def test_counts_are_positive_integers(capsys):
    parser = ArgumentParser()
    parser.add_argument('--repeats', type=count)
    assert parser.parse_args(['--repeats', '12']).repeats == 12
    for text in ('0', '-1', '1.5', 'two', '', '١'):
        with pytest.raises(SystemExit) as end:
            parser.parse_args([f'--repeats={text}'])
        assert end.value.code == 2
        last = capsys.readouterr().err.strip().split('\n')[-1]
        assert f"--repeats: '{text}' is not a positive integer" in last


def test_a_device_is_there(capsys):
    parser = ArgumentParser()
    parser.add_argument('--device', type=device, default='cpu')
    assert parser.parse_args([]).device == 'cpu'
    assert parser.parse_args(['--device', 'cpu:0']).device == 'cpu:0'
    for text in ('gpu', 'cuda:99', 'meta', '', 'cuda:x', 'opencl', '0'):
        with pytest.raises(SystemExit) as end:
            parser.parse_args([f'--device={text}'])
        assert end.value.code == 2
        last = capsys.readouterr().err.strip().split('\n')[-1]
        assert f"'{text}' is no device" in last and 'there are cpu' in last


def test_a_folder_can_be_written(capsys, tmp_path):
    parser = ArgumentParser()
    parser.add_argument('--out', type=folder)
    (tmp_path / 'file').touch()
    (tmp_path / 'link').symlink_to('nowhere')
    for name in ('', 'new', 'new/and/deep'):
        path = str(tmp_path / name)
        assert parser.parse_args(['--out', path]).out == path
    assert not (tmp_path / 'new').exists()
    for path in ('', tmp_path / 'file', tmp_path / 'file/below',
                 tmp_path / 'link'):
        with pytest.raises(SystemExit) as end:
            parser.parse_args([f'--out={path}'])
        assert end.value.code == 2
        last = capsys.readouterr().err.strip().split('\n')[-1]
        assert f"'{path}' is no folder that can be" in last or (
            not path and 'is empty' in last)
