# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The reviewed values of all configs, in `tests/data/recipes`.

One file per folder and model has the values shared by all configs and those
of each. `make recipes` rewrites them; review the diff.
"""
from collections import defaultdict
from pathlib import Path

import yaml

from .recipe import ALL, resolved

FOLDER = Path(__file__).parents[1] / 'data/recipes'


def families():
    """Map each reference file to the names of its configs."""
    found = defaultdict(list)
    for name in ALL:
        model = resolved(name)['model.type']
        found[FOLDER / Path(name).parent / f'{model}.yml'].append(name)
    return found


def read():
    """Map each config to its reviewed values."""
    leaves = {}
    for file in FOLDER.rglob('*.yml'):
        content = yaml.safe_load(file.read_text())
        for name, own in content['each'].items():
            leaves[name] = content['all'] | own
    return leaves


def write():
    """Write the current values."""
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
