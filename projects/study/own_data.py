# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which pre-training suits your images? MF-285M, on one GPU.

    python projects/study/run.py \
        --study projects/study/own_data.py

reads the data that docs/own_data.md describes: unlabeled images in
data/images, folders of classes in data/own/train and data/own/val, boxes by
data/boxes/boxes.py, and published encoders, data/published/NAME.safetensors.
Of classes and boxes, one may be missing. Copy this file to ask something else.
"""
from math import ceil, log2
from pathlib import Path

from projects.study import (
    ACCURACY,
    CLASSES,
    CLASSIFY,
    DETECTION,
    ENCODER,
    Arm,
    Column,
    Pair,
    Probe,
    Question,
    Study,
)
from qbheat_mm.datasets.image_folder import scan_folder
from qbheat_mm.errors import UserError

IMAGES = Path('data/images')
FOLDERS = Path('data/own/train')
BOXES = Path('data/boxes/boxes.py')
PRETRAIN = 'qbheat/qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py'
MOCOV2 = 'mocov2/mocov2_mf-285m_1xb256-coslr-200e_own-images.py'
LINEAR = 'qbheat/benchmarks/mf-285m_1xb256-linear-coslr-90e_own-folders.py'
TRAN = 'qbheat/benchmarks/mf-285m_1xb256-tran1-coslr-200e_own-folders.py'
FINETUNE = (
    'qbheat/benchmarks/mf-285m_1xb256-ft-tran1-coslr-200e_own-folders.py')

COUNT = len(scan_folder(str(IMAGES)).files) if IMAGES.is_dir() else 0
#: Epochs for at least 64 steps of 64 images: 0.9^64 is left of the initial BN
#: statistics.
CALIBRATION = max(2, ceil(64 / max(1, COUNT // 64)))
#: MoCo's queue: a multiple of its batch, 256, but at most half of the images,
#: so that an image does not meet itself.
QUEUE = min(4096, max(256 if COUNT >= 256 else 2,
                      2**int(log2(max(2, COUNT // 2)))))

PROBES = []
if FOLDERS.is_dir():
    PROBES += [Probe('lin', LINEAR, ACCURACY), Probe('tran-1', TRAN, ACCURACY),
               Probe('classes', LINEAR, CLASSES, script=CLASSIFY)]
if BOXES.is_file():
    PROBES += [Probe('RetinaNet', str(BOXES.resolve()), DETECTION)]
if not COUNT:
    raise UserError(f"'{IMAGES}' has no images")
if not PROBES:
    raise UserError(f"found neither '{FOLDERS}' nor '{BOXES}': add one as "
                    'docs/own_data.md says, or draw images as '
                    'projects/study/README.md says')


def qbheat(name: str, title: str, *options: str) -> Arm:
    """QB-Heat on the unlabeled images."""
    return Arm(name, title, PRETRAIN, (
        f'train_dataloader.dataset.data_root={IMAGES}', *options))


ARMS = [
    qbheat('qbheat', 'QB-Heat'),
    qbheat('calibrated', 'random (BN calibrated)',
           'optim_wrapper.optimizer.lr=0.',
           'optim_wrapper.optimizer.weight_decay=0.',
           f'train_cfg.max_epochs={CALIBRATION}'),
    Arm('mocov2', 'MoCo-v2', MOCOV2,
        (f'train_dataloader.dataset.data_root={IMAGES}',
         f'model.queue_len={QUEUE}')),
    qbheat('copied', 'copy (A = B = 0)',
           'model.predictor.prediction=copy'),
]
LABELED = []
if FOLDERS.is_dir():
    ARMS += [Arm('hog', 'HOG (no learning)', None, features='hog')]
    LABELED = [
        # Layer-wise decay spares pre-trained layers; it would nearly freeze
        # random ones.
        Arm('supervised', 'supervised', FINETUNE,
            ('model.backbone.init_cfg=None',
             'optim_wrapper.paramwise_cfg.layer_decay_rate=1.0'),
            metrics=ACCURACY),
        Arm('fine-tuned', 'QB-Heat (fine-tuned)', FINETUNE, start='qbheat',
            metrics=ACCURACY)]

PUBLISHED = [Arm(file.stem, file.stem, None, weights=str(file.resolve()))
             for file in sorted(Path('data/published').glob('*.safetensors'))]

SEEDS = range(3)
OTHERS = ['mocov2', *(arm.name for arm in [*PUBLISHED, *LABELED])]

SUITS = 'Which pre-training suits these'
PAIRS = [*((arm, 'calibrated') for arm in ('qbheat', *OTHERS)),
         ('qbheat', 'copied')]


def pairs(stage: str) -> list[Pair]:
    """Pairs of arms by a probe."""
    return [Pair((first, stage), (second, stage)) for first, second in PAIRS]


QUESTIONS = []
if FOLDERS.is_dir():
    QUESTIONS.append(Question(
        'works-classes', f'{SUITS} classes', ('ridge', 'tran-1/top-1'),
        pairs('classes'), SEEDS,
        ['hog', 'calibrated', 'copied', 'qbheat', *OTHERS],
        [Column('classes', metric) for metric in CLASSES]))
    QUESTIONS.append(Question(
        'learned', f'{SUITS} classes, by learned probes', ('top-1', ),
        seeds=SEEDS, table=['calibrated', 'copied', 'qbheat', *OTHERS],
        columns=[Column('tran-1', 'top-1'), Column('lin', 'top-1')]))
if BOXES.is_file():
    QUESTIONS.append(Question('works-boxes', f'{SUITS} boxes', ('AP', ),
                              pairs('RetinaNet'), SEEDS))
if LABELED:
    QUESTIONS += [Question(
        'fine-tuning', 'Does fine-tuning gain from pre-training', ('top-1', ),
        [Pair(('fine-tuned', ENCODER), ('supervised', ENCODER))], SEEDS)]

STUDY = Study([*ARMS, *PUBLISHED, *LABELED], PROBES, QUESTIONS, about=f"""\
MF-285M on the images in `{IMAGES}`, trained as in the configs that the rows
name, which differ in length, size and cost: QB-Heat's is the cheapest.""")
