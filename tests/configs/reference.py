# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What every shipped configuration resolved to when it was last looked at.

One file a folder and model under `tests/data/recipes`: what its
configurations share, then what each has of its own. `make recipes` writes
them anew; the difference is then to be looked at as that of any other file.
"""
from collections import defaultdict
from pathlib import Path

import yaml

from .recipe import ALL, resolved

FOLDER = Path(__file__).parents[1] / 'data/recipes'


def families():
    """Path of the reference file to the names of its configurations."""
    found = defaultdict(list)
    for name in ALL:
        model = resolved(name)['model.type']
        found[FOLDER / Path(name).parent / f'{model}.yml'].append(name)
    return found


def read():
    """Name of each configuration to the leaves that it had."""
    leaves = {}
    for file in FOLDER.rglob('*.yml'):
        content = yaml.safe_load(file.read_text())
        for name, own in content['each'].items():
            leaves[name] = content['all'] | own
    return leaves


def write():
    """Write what the configurations resolve to now."""
    for file in FOLDER.rglob('*.yml'):
        file.unlink()
    for file, names in families().items():
        first, *others = map(resolved, names)
        shared = {path: value for path, value in first.items() if all(
            path in other and other[path] == value for other in others)}
        each = {name: {path: value for path, value in resolved(name).items()
                       if path not in shared} for name in names}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(
            dict(all=shared, each=each), default_flow_style=None, width=79))


if __name__ == '__main__':
    write()
