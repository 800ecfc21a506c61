# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Parameters and multiply-adds of the shipped models beside the published.

Nothing is computed: the count takes seconds on any machine. Detection heads
need mmdet and mmcv's compiled operators.
"""
import argparse
import csv
from dataclasses import dataclass
from pathlib import Path

from mmengine.config import Config

from qbheat_mm.analysis.model_size import build_without_memory, count
from qbheat_mm.cli import report_user_errors

ROOT = Path(__file__).resolve().parents[2]
# As published: encoders and detectors in the captions and columns of the
# tables of results, V1 with its weights. Empty where the paper says nothing.
PUBLISHED = Path(__file__).with_name('published_sizes.csv')

RULE = """\
MAdds: multiply-adds of convolutions, linear layers and attention products
(both QK and AV), for one image of the stated size (height x width). Norms,
activations, interpolation and elementwise work do not count. A classifier is
counted with its encoder, a detection head without it.
Difference: ours over the published figure, where there is one."""

NOTES = """\
- MF-1.0G: the first row of its last stage is (576, 176), half of MF-3.7G's;
  with the printed one, a copy of the row above, the published figures do not
  come out.
- lin: the published 5.8M is 0.07M below the encoder with its classifier.
- tran-k: parameters agree to the printed digit, as do three of six MAdds. The
  others are up to 0.2G above: pixels (196) and tokens (6) attend to each
  other. Without the tokens the decoders would be at 1.47, 5.55 and 9.89G.
- supervised: the paper's supervised baseline has the tran-1 decoder.
- Mobile-Former V1: its names state more than this rule counts. With one
  multiply-add for each value that leaves a BN or a DY-ReLU the seven are at
  26, 51, 95, 151, 214, 294 and 508M.
- RetinaNet: mmdet's own, on an FPN over 1/8 and 1/16 with three extra levels.
  The published figures for the two larger encoders do not fit such a neck.
- Two stages: heads for 1000 proposals, masks for 100 objects; Panoptic FPN
  needs multiples of 32 pixels. DINO is not counted: its attention samples at
  learned places. The paper has none of them."""


@dataclass(frozen=True)
class Size:
    """One row: a model and its size, in millions and billions.

    ``madds`` is None where they can't be counted, published figures are as
    printed or empty.
    """
    part: str
    name: str
    size: tuple[int, int]
    params: float
    madds: float | None
    published_params: str
    published_madds: str
    config: str

    def cells(self) -> list[str]:
        """The columns of the row."""
        return [
            self.name, f'{self.size[0]}x{self.size[1]}',
            f'{self.params:.2f}',
            *compare(self.params, self.published_params),
            '-' if self.madds is None else f'{self.madds:.3f}',
            *compare(self.madds, self.published_madds), self.config]


def compare(ours: float, published: str) -> list[str]:
    """The published figure and the difference."""
    if not published:
        return ['-', '-']
    return [published, f'{100 * (ours / float(published) - 1):+.1f}%']


def published() -> list[dict]:
    """Read the table of published sizes: one row for each shipped model."""
    with open(PUBLISHED, encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file))


def measure(row: dict) -> Size:
    """Count the model of a row of :func:`published`."""
    size = int(row['height']), int(row['width'])
    model = build_without_memory(
        Config.fromfile(ROOT / 'configs' / row['config']))
    params, madds = count(row['part'], model, size)
    return Size(row['part'], row['name'], size, params / 1e6,
                None if madds is None else madds / 1e9,
                row['params_m'], row['madds_g'], row['config'])


HEADER = [
    'model', 'image', 'params (M)', 'published', 'difference', 'MAdds (G)',
    'published', 'difference', 'config'
]
LEFT = (0, 1, 8)  # columns of text


def format_table(rows: list[Size], markdown: bool) -> str:
    """Format all rows, group by group, for a terminal or as Markdown."""
    widths = [max(map(len, column)) for column in zip(
        HEADER, *(row.cells() for row in rows))]
    edge, between = ('| ', ' | ') if markdown else ('', '  ')

    def line(texts: list[str]) -> str:
        cells = (text.ljust(width) if j in LEFT else text.rjust(width)
                 for j, (text, width) in enumerate(zip(texts, widths)))
        return (edge + between.join(cells) + edge[::-1]).rstrip()

    lines = []
    for part in dict.fromkeys(row.part for row in rows):
        lines += ['', f'## {part}' if markdown else part, '', line(HEADER)]
        if markdown:
            lines.append(line(['-' * width if j in LEFT else
                               '-' * (width - 1) + ':'
                               for j, width in enumerate(widths)]))
        lines += [line(row.cells()) for row in rows if row.part == part]
    return '\n'.join(lines).lstrip('\n')


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        '--markdown', action='store_true', help='print Markdown')
    parser.add_argument(
        '--no-detection', action='store_true',
        help='leave out the heads that need mmdet')
    args = parser.parse_args()
    if not args.no_detection:
        import qbheat_mm.detection  # noqa: F401
    rows = [measure(row) for row in published()
            if not args.no_detection or row['part'] != 'Detection heads']
    if args.markdown:
        print('# Sizes of the models\n\nMade by `python '
              'tools/analysis/complexity.py --markdown`.\n')
    print(f'{RULE}\n')
    print(format_table(rows, args.markdown))
    print(f'\n{"## Notes" if args.markdown else "Notes"}\n\n{NOTES}')


if __name__ == '__main__':
    report_user_errors(main)
