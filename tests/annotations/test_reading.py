# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Files that hold no annotations are told by name, with the place."""
import gzip
import json
import os

import pytest

from qbheat_mm.annotations import read_annotations
from qbheat_mm.errors import UserError

CONTENT = dict(images=[dict(id=1, file_name='ä.png')], annotations=[],
               categories=[])
TEXT = json.dumps(CONTENT, ensure_ascii=False)


def line_of(path):
    with pytest.raises(UserError) as error:
        read_annotations(str(path))
    line = str(error.value)
    assert line.startswith(f"annotation file '{path}' ") and '\n' not in line
    return line


@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig', 'utf-16',
                                      'utf-16-le', 'utf-32'])
def test_every_encoding_of_json_is_read(tmp_path, encoding):
    (tmp_path / 'a.json').write_bytes(TEXT.encode(encoding))
    assert read_annotations(str(tmp_path / 'a.json')) == CONTENT


@pytest.mark.parametrize('content,words', [
    (b'', 'is empty'),
    (b' \n\0\0', 'is empty'),
    (TEXT.encode()[:20], 'is cut: it ends in the middle (line 1, column'),
    (TEXT.encode()[:-1], 'is cut'),
    (b'{"images": [],\n "annotations": [}', '(Expecting value: line 2, col'),
    (b'not json', 'is no JSON (Expecting value: line 1, column 1)'),
    (TEXT.encode('latin-1'), 'is not text in UTF-8 (line 1, column'),
    (gzip.compress(TEXT.encode(), mtime=0), 'gunzip'),
    (b'PK\x03\x04rest', 'zip'),
    (b'\x28\xb5\x2f\xfdrest', 'zstd'),
    (b'\xff\xd8\xff\xe0rest', 'JPEG'),
    (b'\n <!DOCTYPE html><html>404</html>', 'is HTML or XML'),
    (b'[1, 2]', 'holds a list'),
    (b'null', 'holds null'),
    (b'"text"', 'holds text'),
    (b'3', 'holds a number'),
    (b'true', 'holds a truth value'),
    (b'[' * 100_000, 'is nested too deeply'),
    (b'{"a": ' + b'9' * 5000 + b'}', 'cannot be read (Exceeds the limit'),
])
def test_other_files(tmp_path, content, words):
    (tmp_path / 'a.json').write_bytes(content)
    assert words in line_of(tmp_path / 'a.json')


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'loop').symlink_to(tmp_path / 'loop')
    assert 'is a folder' in line_of(tmp_path)
    assert 'is a pipe or a device' in line_of(tmp_path / 'pipe')
    assert 'cannot be read' in line_of(tmp_path / 'loop')
    assert 'cannot be read' in line_of(tmp_path / 'none')


def test_a_copy_is_told_by_the_name_of_the_original(tmp_path):
    (tmp_path / 'copy').write_text('')
    with pytest.raises(UserError, match="file 's3://bucket/a.json' is empty"):
        read_annotations(str(tmp_path / 'copy'), 's3://bucket/a.json')
