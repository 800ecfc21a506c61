# Copyright (c) QB-Heat MM authors. All rights reserved.
"""docs/paper_tables.md maps the paper's rows to configs."""
import re

from .shipped import NAMES, ROOT

TEXT = (ROOT.parent / 'docs/paper_tables.md').read_text()
#: Configs that no row of the paper needs.
BEYOND = re.compile(
    'own-|-50e|resnet|convnext|faster-rcnn|fcos|dino|mask-rcnn|panoptic')


def test_it_names_every_config_of_the_paper_and_no_other():
    named = set()
    for pattern in re.findall(
            r'`((?:qbheat|mobile_former|mocov2)/[^`]+\.py)`', TEXT):
        for encoder in ('285m', '1.0g', '3.7g'):
            found = list(ROOT.glob(pattern.replace('{E}', encoder)))
            assert len(found) == 1, pattern
            named.add(found[0].relative_to(ROOT).as_posix())
    assert named == {name for name in NAMES if not BEYOND.search(name)}
