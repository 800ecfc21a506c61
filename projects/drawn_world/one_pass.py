# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classes and boxes of the demo's images from a single pass, timed."""
import argparse
import time
from collections.abc import Callable, Mapping
from statistics import median

from mmengine.dataset import pseudo_collate

from projects.drawn_world.pictures import draw_one_pass
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.cli import folder, report_user_errors
from qbheat_mm.cli.heads import add_heads, heads_of
from qbheat_mm.cli.predictions import image_pipeline
from qbheat_mm.datasets import find_images, read_image, spread

TITLE = 'Classes and boxes from a single pass'
CAPTION = (
    'A linear classifier and a RetinaNet, trained separately on the same '
    'frozen encoder, predict together: the encoder runs once. Above each '
    'image its most probable class, in it boxes with a score of 0.3 or more; '
    'both are what each model finds alone. The classifier learned from images '
    'with one object (above). Times are medians of runs in turn, for these '
    'images as one batch, while other jobs may run.')
#: Images of each folder, and runs that are timed.
IMAGES, RUNS = 3, 9


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_heads(parser, required=True)
    parser.add_argument('images', nargs='+', help='folders of images')
    parser.add_argument('--out', required=True, type=folder)
    return parser.parse_args()


def milliseconds(functions: Mapping[str, Callable[[], object]]
                 ) -> dict[str, float]:
    """Median times of functions that are called in turn."""
    times = {name: [] for name in functions}
    for _ in range(RUNS + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: median(some[1:]) for name, some in times.items()}


def main() -> None:
    """Predict, draw and time."""
    args = parse_args()
    together = heads_of(args.heads)
    alone = {f'{head.split("=")[0]} alone': heads_of([head])
             for head in args.heads}
    files = [file for path in args.images
             for file in spread(find_images([path]), IMAGES)]
    images = [read_image(file) for file in files]
    prepare = image_pipeline(together)
    data = together.data_preprocessor(pseudo_collate([
        prepare(dict(img=image, img_path=file))
        for image, file in zip(images, files)]))
    times = milliseconds({
        'together': lambda: together(**data),
        **{name: lambda heads=heads: heads(**data)
           for name, heads in alone.items()}})
    times['separately'] = sum(times[name] for name in alone)
    times = {name: value / len(images) for name, value in times.items()}
    Report('one_pass', TITLE, CAPTION, [
        Table('Milliseconds per image', list(times),
              [[f'{value:.1f}' for value in times.values()]])],
        dict(milliseconds=times)).save(
        args.out, dict(one_pass=draw_one_pass(images, together(**data))))


if __name__ == '__main__':
    report_user_errors(main)
