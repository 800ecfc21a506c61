# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-train MF-285M on 100,000 small photographs, on one GPU.

FOLDER has train.npy and val.npy, (N, 64, 64, 3), RGB, uint8, and index.npz
with their labels, `train` and `val`: Tiny-ImageNet, for instance. Images stay
on the GPU, where crops are taken and enlarged. All arms run at once, each in a
process; their rows go to OUT/many_images.jsonl.
"""
import argparse
import logging
import math
import multiprocessing
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import init_default_scope
from mmpretrain.registry import MODELS
from mmpretrain.structures import DataSample
from torch import Tensor, nn
from torchvision.ops import roi_align

from projects.study import Arm, Column, Pair, Question, Study
from projects.study.results import Row, add_row
from projects.study.run import provenance
from qbheat_mm.apis import load_encoder
from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.engine.auto_scale_runner import use_float32
from qbheat_mm.evaluation.features import maps_by
from qbheat_mm.evaluation.probes import learn
from qbheat_mm.models import MobileFormer
from qbheat_mm.teacher.map_folder import MapFolder
from qbheat_mm.teacher.targets import (
    CropsOfMaps,
    EncoderTarget,
    Standardization,
    Targets,
)
from qbheat_mm.teacher.teacher import Teacher
from qbheat_mm.trained import Encoder, Normalization, Normalize

DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
CONFIGS = Path(__file__).with_name('configs')
SIZE, BATCH, WARM_UP = 128, 256, 200
#: Steps, batch and rates of the probes, in several epochs.
PROBE_STEPS, PROBE_BATCH = 2500, 256
RATES = {'lin': 1e-2, 'tran-1': 1e-3}
#: Supervised training: the encoder of the others and a linear classifier.
SUPERVISED = dict(
    type='ImageClassifier',
    backbone=dict(type='MobileFormer', arch='mf-285m', out_indices=(4, 5)),
    neck=dict(type='PoolWithToken'),
    head=dict(type='LinearClsHead', in_channels=912, num_classes=200,
              loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1)))
#: Config, and settings, of each arm.
ARMS = dict(
    pixels=('qbheat', {}),
    hog=('hog', {}),
    distilled=('qbheat', {'teacher_method': 'Distillation'}),
    teacher=('qbheat', {'teacher_method': 'QBHeat'}),
    both=('qbheat', {'teacher_method': 'QBHeat', 'model.with_pixels': True}),
    mocov2=('mocov2', {'model.queue_len': 64 * BATCH,
                       'optim_wrapper.optimizer.lr': 0.12}),
    supervised=('qbheat', {}),
    published=('', {}))


TITLES = dict(
    pixels='pixels', hog='HOG', distilled='plain distillation',
    teacher='teacher', both='teacher and pixels', mocov2='MoCo-v2',
    supervised='supervised', published='EfficientNet-Lite0, ImageNet')
STAGE = 'frozen'
PAIRS = [Pair(('distilled', STAGE), (other, STAGE), 'Tiny-ImageNet')
         for other in TITLES if other != 'distilled']
COLUMNS = [Column(STAGE, metric)
           for metric in ('tran-1', 'lin', 'steps', 'GPU seconds')]
STUDY = Study(
    [Arm(name, title, None) for name, title in TITLES.items()], [], [Question(
        'many-images', 'Which pre-training on 100,000 photographs?', 'tran-1',
        PAIRS, (0, ), [*TITLES], COLUMNS)],
    about="""\
MF-285M on the 100,000 photographs of 64 pixels of Tiny-ImageNet, 200 classes,
enlarged to 128, in batches of 256; top-1 of 10,000 validation images. Three
arms shared one GPU for 72 seconds, so steps differ, and a teacher's encoding
of all images counts in its seconds.""",
    limits="""\
- One seed, one teacher, one to two epochs: far from what long runs reach.
- Probes have several epochs and no augmentation.""",
    title='Many small photographs', primary=3)


class Data(NamedTuple):
    """Images (N, 3, 64, 64), RGB, uint8, and labels (N, ), on the device."""
    images: Tensor
    labels: Tensor

    @classmethod
    def read(cls, folder: Path, split: str, limit: int) -> 'Data':
        """Read a split, or its first images."""
        images = np.load(folder / f'{split}.npy', mmap_mode='r')[:limit]
        labels = np.load(folder / 'index.npz')[split][:limit]
        pixels = torch.from_numpy(np.array(images)).to(DEVICE)
        return cls(pixels.permute(0, 3, 1, 2).contiguous(),
                   torch.from_numpy(labels.astype(np.int64)).to(DEVICE))


class View(NamedTuple):
    """Random crops of a batch, enlarged.

    Attributes:
        pixels: (B, 3, SIZE, SIZE), RGB, 0-255.
        boxes: Corners as shares of the image, (B, 4).
        flips: Horizontal flips, (B, ).
    """
    pixels: Tensor
    boxes: Tensor
    flips: Tensor

    @classmethod
    def of(cls, images: Tensor) -> 'View':
        """Crop 0.2 to 1 of the area, and flip half of the images."""
        number = len(images)
        area = torch.empty(number).uniform_(0.2, 1)
        ratio = torch.empty(number).uniform_(
            math.log(3 / 4), math.log(4 / 3)).exp()
        sides = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()],
                            1).clamp(max=1)
        corner = torch.rand(number, 2) * (1 - sides)
        boxes = torch.cat([corner, corner + sides], 1).to(DEVICE)
        flips = (torch.rand(number) < 0.5).to(DEVICE)
        numbers = torch.arange(number, device=DEVICE)[:, None]
        pixels = roi_align(
            images.float(), torch.cat([numbers, boxes * images.shape[3]], 1),
            SIZE, sampling_ratio=1, aligned=True)
        return cls(torch.where(flips.view(-1, 1, 1, 1), pixels.flip(3),
                               pixels), boxes, flips)

    def samples(self, rows: Tensor) -> list[DataSample]:
        """Tell a teacher where the crops lie."""
        found = []
        for row, box, flip in zip(rows.tolist(), self.boxes.tolist(),
                                  self.flips.tolist()):
            left, top, right, bottom = box
            if flip:
                left, right = right, left
            found.append(DataSample(metainfo=dict(
                sample_idx=row, crop_box=(left, top, right, bottom))))
        return found


def jitter(pixels: Tensor) -> Tensor:
    """Change brightness, contrast and saturation; turn a fifth gray."""
    def factors() -> Tensor:
        return torch.empty(len(pixels), 1, 1, 1).uniform_(0.6, 1.4).to(DEVICE)

    pixels = pixels * factors()
    mean = pixels.mean((1, 2, 3), keepdim=True)
    pixels = mean + (pixels - mean) * factors()
    gray = (pixels * pixels.new_tensor(
        [0.299, 0.587, 0.114]).view(-1, 1, 1)).sum(1, keepdim=True)
    saturation = factors() * (torch.rand(len(pixels)) > 0.2).to(
        DEVICE).view(-1, 1, 1, 1)
    return (gray + (pixels - gray) * saturation).clamp(0, 255)


class Maps:
    """A teacher's maps of all images, on the device; see ``MapFolder``."""

    def __init__(self, teacher: Teacher, images: Tensor) -> None:
        self.shapes = teacher.shapes
        parts = []
        for batch in images.split(BATCH):
            maps = [level.flatten(1) for level in teacher(batch)]
            parts.append(torch.cat(maps, 1).half())
        self.maps = torch.cat(parts)

    def __getitem__(self, rows: Sequence[int]) -> Tensor:
        """Return the maps of some images, flattened."""
        return self.maps[rows]

    split = MapFolder.split


def losses_of(arm: str, model: nn.Module, normalize: Normalize, data: Data,
              rows: Tensor) -> dict[str, Tensor]:
    """Compute the losses of a batch."""
    view = View.of(data.images[rows])
    if arm == 'mocov2':
        views = (view, View.of(data.images[rows]))
        return model([normalize(jitter(crop.pixels)) for crop in views],
                     mode='loss')
    inputs, samples = normalize(view.pixels), None
    if arm == 'supervised':
        samples = [DataSample().set_gt_label(label).to(DEVICE)
                   for label in data.labels[rows].tolist()]
    elif arm in ('distilled', 'teacher', 'both'):
        samples = view.samples(rows)
    return model(inputs, samples, mode='loss')


def settings(arm: str, teacher: str) -> Config:
    """Return the config of an arm."""
    name, options = ARMS[arm]
    options = dict(options)
    if 'teacher_method' in options:
        options['teacher'] = teacher
    cfg = read_config(str(CONFIGS / f'{name}.py'), options)
    if arm == 'supervised':
        cfg.model = dict(SUPERVISED,
                         data_preprocessor=cfg.model.data_preprocessor)
        cfg.model.data_preprocessor.type = 'ClsDataPreprocessor'
    if DEVICE.type == 'cpu':
        use_float32(cfg.optim_wrapper)
    return cfg


def pretrain(arm: str, args: argparse.Namespace,
             data: Data) -> tuple[Encoder, int]:
    """Train an arm; return its encoder, and the steps."""
    cfg = settings(arm, args.teacher)
    model = MODELS.build(cfg.model)
    model.init_weights()
    model.to(DEVICE).train()
    normalization = Normalization.of(model)
    normalize = Normalize(normalization).to(DEVICE)
    generator = getattr(model, 'target_generator', None)
    if isinstance(generator, EncoderTarget):
        generator.teacher.encoder.to(DEVICE)
        maps = Maps(generator.teacher, data.images)
        some = maps.maps[::max(len(maps.maps) // 5000, 1)].cpu().split(256)
        statistics = Standardization.of(maps.split(flat) for flat in some)
        generator.targets = Targets(CropsOfMaps(maps), statistics.to(DEVICE))
    optimizer = build_optim_wrapper(model, cfg.optim_wrapper)
    rates = [group['lr'] for group in optimizer.param_groups]
    step = partial(losses_of, arm, model, normalize, data)
    steps = descend(arm, model, optimizer, rates, step, args,
                    len(data.images))
    backbone = MobileFormer('mf-285m', out_indices=(-2, -1))
    backbone.load_state_dict(model.backbone.state_dict())
    return Encoder(backbone, normalization), steps


def descend(arm: str, model: nn.Module, optimizer, rates: Sequence[float],
            losses: Callable[[Tensor], dict], args: argparse.Namespace,
            images: int) -> int:
    """Run the steps, with a cosine that also ends when the time does."""
    start, order, progress = time.time(), torch.empty(0).long(), 0.
    for step in range(args.steps):
        progress = max(step / args.steps,
                       (time.time() - start) / (60 * args.minutes))
        if progress >= 1:
            return step
        factor = min(1, (step + 1) / WARM_UP) * (
            1 + math.cos(math.pi * progress)) / 2
        for group, rate in zip(optimizer.param_groups, rates):
            group['lr'] = rate * factor
        if len(order) < args.batch:
            order = torch.randperm(images)
        rows, order = order[:args.batch], order[args.batch:]
        with optimizer.optim_context(model):
            loss, _ = model.parse_losses(losses(rows.to(DEVICE)))
        optimizer.update_params(loss)
        if step % 200 == 0:
            print(f'{arm}: step {step}, loss {float(loss):.4f}, '
                  f'{time.time() - start:.0f} s', flush=True)
    return args.steps


@torch.no_grad()
def describe(encoder: Encoder, data: Data) -> dict[str, np.ndarray]:
    """Encode whole images, enlarged, in half precision."""
    features, parts = maps_by(encoder.to(DEVICE)), defaultdict(list)
    for batch in data.images.split(BATCH):
        large = F.interpolate(batch.float(), SIZE, mode='bilinear')
        for name, values in features(large).items():
            parts[name].append(values.half())
    return {name: torch.cat(batches).numpy()
            for name, batches in parts.items()}


def judge(encoder: Encoder, known: Data, new: Data,
          steps: int) -> dict[str, float]:
    """Measure top-1 of frozen features, in percent."""
    parts, others = describe(encoder, known), describe(encoder, new)
    labels, found = known.labels.cpu().numpy(), {}
    truth = new.labels.cpu().numpy()
    for kind, rate in RATES.items():
        torch.manual_seed(0)
        classify = learn(kind, parts, labels, steps, rate,
                         int(labels.max()) + 1, PROBE_BATCH, DEVICE)
        found[kind] = round(100 * float((classify(others) == truth).mean()), 2)
    return found


def run(args: argparse.Namespace, arm: str) -> str:
    """Train and judge an arm, and write its row."""
    start = time.time()
    try:
        logging.disable(logging.INFO)
        init_default_scope('mmpretrain')
        torch.manual_seed(args.seed)
        torch.set_num_threads(1)
        known = Data.read(args.folder, 'train', args.limit)
        if arm == 'published':
            encoder, steps = load_encoder(args.teacher), 0
        else:
            encoder, steps = pretrain(arm, args, known)
        trained = time.time()
        metrics = judge(encoder, known, Data.read(
            args.folder, 'val', args.limit), args.probe_steps)
        metrics.update({'steps': steps,
                        'GPU seconds': round(trained - start, 1)})
        add_row(args.out / 'many_images.jsonl', Row(
            arm, args.seed, STAGE, metrics, round(time.process_time(), 1),
            ' '.join(['python', *sys.argv]), **provenance()))
        return f'{arm}: {metrics}, {time.time() - start:.0f} s'
    except BaseException:
        return f'{arm}: failed\n{traceback.format_exc()}'


def main() -> None:
    """Run all arms at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--teacher', required=True, metavar='FILE')
    parser.add_argument('--arms', nargs='+', default=[*ARMS], choices=ARMS)
    parser.add_argument('--steps', type=count, default=3000)
    parser.add_argument('--minutes', type=float, default=4,
                        help='pre-training ends after N minutes at the latest')
    parser.add_argument('--batch', type=count, default=BATCH)
    parser.add_argument('--probe-steps', type=count, default=PROBE_STEPS)
    parser.add_argument('--limit', type=count, help='images, to try it')
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    failed = False
    with multiprocessing.get_context('spawn').Pool(
            len(args.arms), maxtasksperchild=1) as workers:
        for said in workers.imap_unordered(partial(run, args), args.arms, 1):
            print(said, flush=True)
            failed |= ': failed\n' in said
    sys.exit(failed)


if __name__ == '__main__':
    report_user_errors(main)
