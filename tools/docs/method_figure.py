# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Draw docs/figures/method.svg, the figure of the method in the README.

The image is one of projects.drawn_world.world's, as squares of one colour each, so that
the file stays small and sharp. Text and lines follow the reader's light or
dark background.
"""
import argparse
from pathlib import Path
from xml.sax.saxutils import escape

import cv2
import numpy as np

from projects.drawn_world.world import TextureBank, classification_scene

FILE = Path(__file__).resolve().parents[2] / 'docs/figures/method.svg'
WIDTH, HEIGHT = 920, 276
#: Squares of the picture along a side, and their size.
CELLS, CELL = 24, 6
SIDE = CELLS * CELL
#: Where each part stands, from the left.
CROP, ENCODE, PREDICT, DECODE, COMPARE = 12, 180, 330, 556, 764
TOP = 66

STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif;
       fill: #24292f; text-anchor: middle; }
.step { font-weight: 600; font-size: 15px; }
.small { font-size: 12px; fill: #57606a; }
.line { stroke: #24292f; fill: none; stroke-width: 1.5; }
.box { stroke: #24292f; fill: #f0f6fc; stroke-width: 1.5; }
.page { fill: #ffffff; } .hidden { fill: #d0d7de; }
.seen { stroke: #d55e00; fill: none; stroke-width: 2.5; }
.a { stroke: #0072b2; fill: none; stroke-width: 2; }
.b { stroke: #009e73; fill: none; stroke-width: 2; }
.ta { fill: #0072b2; font-weight: 600; } .tb { fill: #007f5c;
  font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .small { fill: #9198a1; }
  .line { stroke: #e6edf3; } .box { stroke: #e6edf3; fill: #1f2933; }
  .page { fill: #0d1117; } .hidden { fill: #3d444d; }
  .seen { stroke: #ff8a3d; }
  .a { stroke: #4db3ff; } .b { stroke: #3fcf9f; }
  .ta { fill: #4db3ff; } .tb { fill: #3fcf9f; }
}"""


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', type=Path, default=FILE)
    parser.add_argument('--seed', type=int, default=28,
                        help='of the picture; defaults to 28')
    return parser.parse_args()


def picture(seed: int) -> np.ndarray:
    """A drawn scene, (CELLS, CELLS, 3), RGB, uint8."""
    scene = classification_scene(
        np.random.default_rng(seed), TextureBank(0, 16), 5, 128)
    return cv2.resize(scene.image, (CELLS, CELLS),
                      interpolation=cv2.INTER_AREA)


def squares(colours: np.ndarray, left: int, top: int) -> str:
    """Squares of colour, (rows, columns, 3)."""
    parts = []
    for row, line in enumerate(colours):
        for column, colour in enumerate(line):
            parts.append(f'<path fill="#{"".join(f"{c:02x}" for c in colour)}"'
                         f' d="M{left + column * CELL} {top + row * CELL}'
                         f'h{CELL}v{CELL}h-{CELL}z"/>')
    # Without seams between squares where the figure is scaled.
    return f'<g shape-rendering="crispEdges">{"".join(parts)}</g>'


def rectangle(kind: str, left, top, width, height, radius=0) -> str:
    """A rectangle of a class of the style sheet."""
    return (f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" '
            f'height="{height}" rx="{radius}"/>')


def text(words: str, x, y, kind: str = '') -> str:
    """Words, centred at a place."""
    name = f' class="{kind}"' if kind else ''
    return f'<text{name} x="{x}" y="{y}">{escape(words)}</text>'


def arrow(x1, y1, x2, y2, kind: str = 'line') -> str:
    """A line with a head, of a class of the style sheet."""
    return (f'<path class="{kind}" marker-end="url(#{kind})" '
            f'd="M{x1} {y1}L{x2} {y2}"/>')


def markers() -> str:
    """Heads of the arrows, each in the colour of its line."""
    return ''.join(
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto">'
        f'<path class="{kind}" d="M1 1L7 4L1 7"/></marker>'
        for kind in ('line', 'a', 'b'))


def crop(colours: np.ndarray) -> str:
    """The image, of which one quarter is seen."""
    half = CELLS // 2
    return (rectangle('hidden', CROP, TOP, SIDE, SIDE)
            + squares(colours[:half, :half], CROP, TOP)
            + rectangle('seen', CROP, TOP, SIDE // 2, SIDE // 2)
            + text('crop', CROP + SIDE / 2, 36, 'step')
            + text('one quarter is seen', CROP + SIDE / 2, TOP + SIDE + 24,
                   'small'))


def encode() -> str:
    """The encoder."""
    middle, end = TOP + SIDE / 4, ENCODE + 100
    shape = (f'M{ENCODE + 8} {middle - 36}L{end} {middle - 18}V{middle + 18}'
             f'L{ENCODE + 8} {middle + 36}Z')
    return (arrow(CROP + SIDE / 2 + 6, middle, ENCODE + 2, middle)
            + f'<path class="box" d="{shape}"/>'
            + text('CNN', ENCODE + 54, middle + 5)
            + text('encode', ENCODE + 54, 36, 'step')
            + text('what is kept', ENCODE + 54, TOP + SIDE + 24, 'small'))


def predict() -> str:
    """The four quarters of features, and the two matrices."""
    side, gap = 62, 40
    right, down = PREDICT + side + gap, TOP + side + gap
    parts = [arrow(ENCODE + 104, TOP + SIDE / 4, PREDICT - 4, TOP + SIDE / 4)]
    for left, top, word in ((PREDICT, TOP, 'z'), (right, TOP, 'z + ΔAz'),
                            (PREDICT, down, 'z + ΔBz'), (right, down, '')):
        parts.append(rectangle('box', left, top, side, side, 4))
        parts.append(text(word or '…', left + side / 2, top + side / 2 + 5))
    parts.append(rectangle('seen', PREDICT, TOP, side, side, 4))
    middle = side / 2
    parts += [
        arrow(PREDICT + side + 4, TOP + middle, right - 3, TOP + middle, 'a'),
        text('A', PREDICT + side + gap / 2, TOP + middle - 8, 'ta'),
        arrow(PREDICT + middle, TOP + side + 4, PREDICT + middle, down - 3,
              'b'),
        text('B', PREDICT + middle + 13, TOP + side + gap / 2 + 5, 'tb'),
        arrow(PREDICT + side + 5, TOP + side + 5, right - 4, down - 4),
        text('predict', PREDICT + side + gap / 2, 36, 'step'),
        text('∂z/∂x = Az,  ∂z/∂y = Bz', PREDICT + side + gap / 2,
             down + side + 24, 'small')]
    return ''.join(parts)


def decode() -> str:
    """The decoder, and where it paints."""
    middle = TOP + SIDE / 2
    return (arrow(PREDICT + 170, middle, DECODE - 2, middle)
            + rectangle('box', DECODE + 2, middle - 48, 100, 96, 6)
            + text('small', DECODE + 52, middle - 4)
            + text('transformer', DECODE + 52, middle + 14)
            + text('decode', DECODE + 52, 36, 'step')
            + text('paints pixels', DECODE + 52, TOP + SIDE + 24, 'small')
            + arrow(DECODE + 106, middle, COMPARE - 6, middle))


def compare(colours: np.ndarray) -> str:
    """The three quarters that were hidden."""
    half, side = CELLS // 2, SIDE // 2
    return (squares(colours[:half, half:], COMPARE + side, TOP)
            + squares(colours[half:], COMPARE, TOP + side)
            + rectangle('hidden', COMPARE, TOP, side, side)
            + text('compare', COMPARE + side, 36, 'step')
            + text('with what was hidden', COMPARE + side, TOP + SIDE + 24,
                   'small'))


def draw(seed: int) -> str:
    """The whole figure."""
    colours = picture(seed)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
            f'{HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
            'aria-label="crop, encode, predict, decode, compare">\n'
            f'<style>{STYLE}\n</style>\n<defs>{markers()}</defs>\n'
            # Its own ground: a page may be dark where the system is not.
            + rectangle('page', 0, 0, WIDTH, HEIGHT, 8)
            + '\n'.join([crop(colours), encode(), predict(), decode(),
                         compare(colours)]) + '\n</svg>\n')


def main() -> None:
    """Draw."""
    args = parse_args()
    args.out.write_text(draw(args.seed), encoding='utf-8')
    print(args.out)


if __name__ == '__main__':
    main()
