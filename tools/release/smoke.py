# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Try a wheel in an empty folder: pre-train, load and embed.

The argument is the folder into which it is installed.
"""
import random
import sys
from pathlib import Path

from PIL import Image

import qbheat_mm
from qbheat_mm.apis import embed, find_config, load_encoder, pretrain

TINY = dict(stem=8, tokens=(3, 16), conv=20,
            stages=[[('lite', 8, 8)], [('mf-down', 16, 12)]])


def main() -> None:
    """Try everything once."""
    installed = Path(qbheat_mm.__file__)
    assert installed.is_relative_to(sys.argv[1]), installed
    config = find_config('qbheat_mf-285m_8xb128-amp-coslr-100e_in1k')
    assert config and Path(config).is_relative_to(installed.parent), config
    Path('images').mkdir()
    for i in range(4):
        color = tuple(random.randrange(256) for _ in range(3))
        Image.new('RGB', (64, 64), color).save(f'images/{i}.png')
    checkpoint = pretrain('images', 'run', arch=TINY, epochs=1, size=64,
                          workers=0, options={'model.neck.depth': 1})
    found = embed(load_encoder(checkpoint), 'images')
    assert found.embeddings.shape == (4, 20), found.embeddings.shape
    print(f'qbheat_mm {qbheat_mm.__version__} pre-trains, loads and embeds '
          'from its wheel')


if __name__ == '__main__':
    main()
