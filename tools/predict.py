# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run several heads on one frozen encoder over images.

    python tools/predict.py --head NAME=RUN --head ... IMAGES --out FOLDER

Writes an annotated copy of each image, and all predictions to
FOLDER/predictions.json. Images are prepared by each head's test pipeline;
heads with equal ones share a pass of the encoder.
"""
import argparse
import json
import os.path as osp
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mmengine.dataset import pseudo_collate
from mmengine.utils import track_iter_progress
from PIL import Image

from qbheat_mm.cli.arguments import add_device, add_heads, count, folder
from qbheat_mm.cli.head_option import heads_of
from qbheat_mm.cli.predictions import (
    SCORE,
    draw,
    group_by_pipeline,
    prediction_to_json,
)
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.datasets import ImageError, find_images, short_names
from qbheat_mm.errors import UserError
from qbheat_mm.utils.atomic_write import atomic_write

if TYPE_CHECKING:
    # For the type only
    from qbheat_mm.apis import Heads

#: Formats of written pictures; others become PNG.
EXTENSIONS = ('.jpg', '.jpeg', '.png')


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add_heads(parser, required=True)
    parser.add_argument(
        'images', nargs='+', help='image files or folders of images')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder to write to')
    parser.add_argument(
        '--size', type=count, nargs=2, metavar=('SHORT', 'LONG'),
        help='scale images so that their sides are at most these, as 800 '
        "1333, for all heads; defaults to each head's test pipeline")
    parser.add_argument(
        '--score', type=float,
        help='minimum score of objects; defaults to that of the best F1 in '
        f"each detector's validation, or {SCORE}")
    add_device(parser)
    return parser.parse_args()


def name_pictures(files: list[str], out: str) -> dict[str, str]:
    """Name the annotated copy of each image.

    Raises:
        UserError: If an image would be overwritten.
    """
    names = short_names([osp.abspath(file) for file in files])
    sources, pictures = set(map(osp.realpath, files)), {}
    for file, name in zip(files, names):
        while (not name.lower().endswith(EXTENSIONS)
               or name in pictures.values()):
            name = f'{name}.png'
        if osp.realpath(osp.join(out, name)) in sources:
            raise UserError(f"--out '{out}' would overwrite the image "
                            f"'{name}': give another folder")
        pictures[file] = name
    return pictures


def choose_scores(heads: 'Heads', given: float | None) -> dict[str, float]:
    """Choose the minimum score of each head's objects, and print it."""
    scores = {}
    for name, head in heads.trained.items():
        score = SCORE if given is None else given
        if given is None and head.score_threshold is not None:
            score = head.score_threshold
            print(f'{name}: objects that score {score:.2f} or more, with the '
                  'best F1 in validation (--score)')
        scores[name] = score
    return scores


def report(rows: list[dict], target: str, scores: Mapping[str, float]
           ) -> None:
    """Say where predictions are, and which heads found nothing."""
    print(f'\n{len(rows)} pictures in {osp.dirname(target)}, predictions in '
          f'{target}')
    for name, score in scores.items():
        if rows and not any(row['found'][name] for row in rows):
            print(f'{name}: nothing scores {score:.2g} or more (--score)')


def main() -> None:
    args = parse_args()
    files = list(dict.fromkeys(find_images(args.images)))
    pictures = name_pictures(files, args.out)
    heads = heads_of(args.heads, args.device)
    scores = choose_scores(heads, args.score)
    groups = group_by_pipeline(heads, args.size)
    load = groups[0][0].transforms[0]
    rows, problems = [], []
    for file in track_iter_progress(files):
        try:
            image = load(dict(img_path=file))['img']
        except ImageError as error:
            problems.append(str(error))
            continue
        samples, described = {}, {}
        for prepare, group in groups:
            batch = pseudo_collate([prepare(dict(img=image, img_path=file))])
            for name, (sample, ) in group.test_step(batch).items():
                samples[name] = sample.cpu()
        for name, head in heads.trained.items():
            described[name] = prediction_to_json(
                samples[name], head.classes, scores[name])
        drawn = draw(image[..., ::-1], samples, heads, scores)
        with atomic_write(osp.join(args.out, pictures[file])) as part:
            Image.fromarray(drawn).save(part)
        rows.append(dict(
            file=file, picture=pictures[file], height=image.shape[0],
            width=image.shape[1], found=described))
    target = osp.join(args.out, 'predictions.json')
    with atomic_write(target) as part, open(part, 'w', encoding='utf-8') as f:
        json.dump(dict(images=rows, problems=problems), f)
    report(rows, target, scores)
    if problems:
        print('\n'.join(problems[:-1]))
        raise UserError(problems[-1])


if __name__ == '__main__':
    report_user_errors(main)
