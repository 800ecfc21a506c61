# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Show what a detector finds and misses on one page."""
import contextlib
import io
import os.path as osp
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from mmdet.datasets.api_wrappers import COCO
from PIL import Image, ImageDraw

from ..datasets.coco_check import load_coco
from ..datasets.images import read_image
from ..errors import printable
from ..report import Report, Table, command_line, render_page
from ..report.style import BLUE, GREY, VERMILION, in_style, new_figure
from .coco import index_coco
from .matching import Matches, evaluate, load_found, match

#: Images on the page, and the longer side of each of their two copies.
SHOWN, SIDE = 24, 420
# Pixels between the copies, and for the name above them.
_GAP, _TOP = 8, 16
_MISSED, _BACKGROUND = 'missed', 'background'


@dataclass
class DetectionErrors:
    """What a detector finds in the images of a data set.

    Args:
        ann_file (str): COCO file of the true boxes.
        found (Sequence[Mapping]): ``img_id``, ``bboxes`` (N, 4) as corners,
            ``scores`` and ``labels`` (N, ) of each image, arrays.
        files (Mapping[int, str]): File of each image by its id.
        classes (Sequence[str]): Names of the labels.
        default_threshold (float): Score of the boxes to show without a true
            positive.

    Attributes:
        threshold (float): Score of the best F1, or the default.
        false_positives, missed (set[int]): Ids of wrong boxes of this score
            or more, and of ground truth that is missed.
    """
    ann_file: str
    found: Sequence[Mapping]
    files: Mapping[int, str]
    classes: Sequence[str]
    default_threshold: float

    def __post_init__(self) -> None:
        content, _ = load_coco(self.ann_file, self.classes)
        self.truth = index_coco(content, for_evaluation=True)
        # Sorted like the classes
        self.category_ids = [each.id for each in content.categories]
        self.image_ids = [image['img_id'] for image in self.found]
        self.boxes = load_found(self.truth, self.found, self.category_ids)
        self.matches = match(self.truth, self.boxes, self.image_ids)
        self.threshold = self.matches.threshold
        if self.threshold is None:
            self.threshold = self.default_threshold
        confident = []
        for image in self.found:
            kept = np.asarray(image['scores']) >= self.threshold
            confident.append(dict(
                image, bboxes=image['bboxes'][kept],
                scores=image['scores'][kept], labels=image['labels'][kept]))
        self.confident = load_found(self.truth, confident, self.category_ids)
        self.false_positives, self.missed = self._find_errors()

    def _find_errors(self) -> tuple[set[int], set[int]]:
        """Ids of found boxes that are wrong, and of missed ones."""
        wrong, missed = set(), set()
        for image in evaluate(self.truth, self.confident,
                              self.image_ids).evalImgs:
            if image is None:
                continue
            for box, match_id, ignored in zip(
                    image['dtIds'], image['dtMatches'][0],
                    image['dtIgnore'][0]):
                if not (match_id or ignored):
                    wrong.add(box)
            for box, match_id, ignored in zip(
                    image['gtIds'], image['gtMatches'][0], image['gtIgnore']):
                if not (match_id or ignored):
                    missed.add(box)
        return wrong, missed

    def worst(self) -> list[int]:
        """Ids of the images with most errors, the worst first."""
        errors = dict.fromkeys(self.image_ids, 0.)
        for key in self.false_positives:
            box = self.confident.anns[key]
            # Among equals, those that the detector is surest of.
            errors[box['image_id']] += 1 + 1e-3 * box['score']
        for key in self.missed:
            errors[self.truth.anns[key]['image_id']] += 1
        return sorted(errors, key=errors.get, reverse=True)[:SHOWN]

    def tabulate_classes(self) -> Table:
        """AP by class and size, and errors at the threshold."""
        evaluation = evaluate(self.truth, self.boxes, self.image_ids,
                              iou_thr=None)
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation.accumulate()
        # IoU thresholds, recalls, classes by id, sizes, boxes per image
        precision = evaluation.eval['precision'][..., -1]
        order = sorted(self.category_ids)
        table = Table(
            f'By class, in percent; at scores of {self.threshold:.2f} or more',
            ['class', 'AP', 'AP50', 'small', 'medium', 'large', 'boxes',
             'missed', 'false positives'])
        for name, key in zip(self.classes, self.category_ids):
            of_class = precision[:, :, order.index(key)]
            table.rows.append([
                printable(name), _percent(of_class[..., 0]),
                _percent(of_class[0, :, 0]), _percent(of_class[..., 1]),
                _percent(of_class[..., 2]), _percent(of_class[..., 3]),
                len(self.truth.catToImgs[key]),
                _count(self.missed, self.truth, key),
                _count(self.false_positives, self.confident, key)])
        return table

    def tabulate_confusion(self) -> Table:
        """How often boxes of a class are taken for which, at the threshold."""
        names = [printable(name) for name in self.classes]
        places = {key: i for i, key in enumerate(self.category_ids)}
        counts = np.zeros((len(names) + 1, len(names) + 1), int)
        for image in evaluate(self.truth, self.confident, self.image_ids,
                              by_class=False).evalImgs:
            if image is None:
                continue
            for box, match_id, ignored in zip(
                    image['gtIds'], image['gtMatches'][0], image['gtIgnore']):
                if not ignored:
                    row = places[self.truth.anns[box]['category_id']]
                    column = places[self.confident.anns[int(match_id)][
                        'category_id']] if match_id else -1
                    counts[row, column] += 1
            for box, match_id, ignored in zip(
                    image['dtIds'], image['dtMatches'][0],
                    image['dtIgnore'][0]):
                if not (match_id or ignored):
                    counts[-1, places[self.confident.anns[box][
                        'category_id']]] += 1
        rows = []
        for name, row in zip([*names, _BACKGROUND], counts.tolist()):
            rows.append([name, *row])
        return Table('True and predicted classes',
                     ['true', *names, _MISSED], rows)

    def draw_image(self, image_id: int) -> Image.Image:
        """True boxes on the left, found ones on the right, and the name."""
        picture = Image.fromarray(read_image(self.files[image_id])[..., ::-1])
        scale = SIDE / max(picture.size)
        picture = picture.resize(
            [max(round(side * scale), 1) for side in picture.size])
        both = Image.new('RGB', (2 * picture.width + _GAP,
                                 picture.height + _TOP))
        ImageDraw.Draw(both).text(
            (2, 2), printable(osp.basename(self.files[image_id])))
        for left, boxes, errors in (
                (0, self.truth, self.missed),
                (picture.width + _GAP, self.confident,
                 self.false_positives)):
            both.paste(self._draw_boxes(picture.copy(), scale, boxes,
                                        boxes.imgToAnns[image_id], errors),
                       (left, _TOP))
        return both

    def _draw_boxes(self, picture: Image.Image, scale: float, boxes: COCO,
                    shown: Sequence[Mapping], errors: set[int]
                    ) -> Image.Image:
        draw = ImageDraw.Draw(picture)
        for box in shown:
            x, y, w, h = (value * scale for value in box['bbox'])
            is_error = box['id'] in errors
            text = printable(boxes.cats[box['category_id']]['name'])
            if 'score' in box:
                text += f" {box['score']:.2f}"
            color = VERMILION if is_error else BLUE
            draw.rectangle((x, y, x + w, y + h), outline=color,
                           width=3 if is_error else 1)
            place = x + 3, y + 2
            draw.rectangle(draw.textbbox(place, text), fill=color)
            draw.text(place, text, fill='white')
        return picture


def _percent(precision: np.ndarray) -> float | None:
    """Mean of precisions; None without any box, where they are -1."""
    known = precision[precision > -1]
    return round(100 * float(known.mean()), 1) if known.size else None


def _count(ids: set[int], boxes: COCO, category_id: int) -> int:
    number = 0
    for key in ids:
        number += boxes.anns[key]['category_id'] == category_id
    return number


@in_style()
def draw_scores(matches: Matches, threshold: float) -> Figure:
    """Draw precision, recall and F1 over the score."""
    figure = new_figure(6, 3.2)
    axis = figure.subplots()
    for name, values in (('precision', matches.precision),
                         ('recall', matches.recall), ('F1', matches.f1)):
        axis.plot(matches.scores, 100 * values, label=name)
    axis.axvline(threshold, color=GREY, linewidth=1)
    axis.set(xlabel='score of boxes, at least', ylabel='%', xlim=(0, 1),
             ylim=(0, 100))
    axis.legend()
    return figure


def render_errors(errors: DetectionErrors, source: str) -> str:
    """Render the errors as an HTML page.

    Args:
        errors (DetectionErrors): What was found and missed.
        source (str): Where the images are from.
    """
    at = int((errors.matches.scores >= errors.threshold).sum()) - 1
    advice = 'No detection is correct, so there is no score to suggest.'
    if errors.matches.threshold is not None:
        advice = (
            f'Suggested score: {errors.threshold:.2f}, with the best F1; '
            f'precision {errors.matches.precision[at]:.0%}, recall '
            f'{errors.matches.recall[at]:.0%} (IoU of at least 0.5).')
    numbers = Report(
        'numbers', 'Which score?', f'{advice} Small is below 32 x 32 '
        'pixels, large above 96 x 96.',
        [errors.tabulate_classes(), errors.tabulate_confusion()],
        source=dict(command=command_line()), pictures=['scores.png'])
    content = io.BytesIO()
    with in_style():
        draw_scores(errors.matches, errors.threshold).savefig(
            content, format='png', dpi=200)
    shown = errors.worst()
    files, pictures = [], []
    for image_id in shown:
        picture = io.BytesIO()
        errors.draw_image(image_id).save(picture, 'PNG')
        files.append(printable(errors.files[image_id]))
        pictures.append(picture.getvalue())
    images = Report(
        'worst', 'The worst images first', f'{len(shown)} of '
        f'{len(errors.image_ids)} images, those with most errors first. Left: '
        'ground truth, misses in orange. Right: predictions, false positives '
        'in orange.', pictures=files)
    return render_page('What the detector finds and misses', source,
                       [(numbers, [content.getvalue()]), (images, pictures)])
