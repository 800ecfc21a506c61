# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Which pre-training for images of one's own? With MF-285M, on one GPU.

    python projects/drawn_world/study/run.py --study projects/drawn_world/study/own_data.py --results FILE

reads what docs/own_data.md tells of: data/images without labels, folders of
classes data/own/train and data/own/val, and boxes by my_boxes.py; of the last
two one may be absent. Copy this file to ask something else.
"""
from math import ceil, log2
from pathlib import Path

from projects.drawn_world.study import ACCURACY, DETECTION, Arm, Probe, Study
from projects.drawn_world.study.tables import Question
from qbheat_mm.datasets.image_folder import scan_folder
from qbheat_mm.errors import UserError

SEEDS = 3
IMAGES, CLASSES, BOXES = map(Path, ('data/images', 'data/own/train',
                                    'my_boxes.py'))
PRETRAIN = 'qbheat/qbheat_mf-285m_1xb256-amp-coslr-400e_own-images.py'
MOCOV2 = 'mocov2/mocov2_mf-285m_1xb256-coslr-200e_own-images.py'
LINEAR = 'qbheat/benchmarks/mf-285m_1xb256-linear-coslr-90e_own-folders.py'
TRAN = 'qbheat/benchmarks/mf-285m_1xb256-tran1-coslr-200e_own-folders.py'
FINETUNE = (
    'qbheat/benchmarks/mf-285m_1xb256-ft-tran1-coslr-200e_own-folders.py')

COUNT = len(scan_folder(str(IMAGES))[0]) if IMAGES.is_dir() else 0
BATCH = 256
#: Batch statistics of random weights: 0.9^64 is left of their first values.
CALIBRATION = max(2, ceil(64 / max(1, COUNT // BATCH)))
#: Half of the images at most, or an image meets itself in it, but a step's at
#: least, which divide it.
QUEUE = min(4096, max(BATCH if COUNT >= BATCH else 2,
                      2**int(log2(max(2, COUNT // 2)))))

INSIDE = ('token similarity', 'token similarity between images',
          'spatial correlation', 'effective rank')

PROBES = (
    *((Probe('lin', LINEAR, ACCURACY), Probe('tran-1', TRAN, ACCURACY),
       Probe('features', LINEAR,
             {name: (name, 1) for name in ('k-NN', *INSIDE)},
             tool='study/features.py')) if CLASSES.is_dir() else ()),
    *((Probe('RetinaNet', str(BOXES.resolve()), DETECTION), )
      if BOXES.is_file() else ()),
)
if not PROBES:
    raise UserError(
        f"there are neither folders of classes in '{CLASSES}' nor a detector "
        f"'{BOXES}': add one, as docs/own_data.md says, or let "
        'projects/drawn_world/study/draw.py draw both')


def qbheat(name: str, title: str, *options: str) -> Arm:
    """QB-Heat on the images without labels."""
    return Arm(name, title, PRETRAIN, (
        f'train_dataloader.dataset.data_root={IMAGES}', *options), seeds=SEEDS)


FROM_CLASSES = (
    Arm('supervised', 'supervised by the labels', FINETUNE,
        ('model.backbone.init_cfg=None', ), seeds=SEEDS, metrics=ACCURACY),
    Arm('fine-tuned', 'QB-Heat, then fine-tuned on the labels', FINETUNE,
        start='qbheat', seeds=SEEDS, metrics=ACCURACY),
) if CLASSES.is_dir() else ()

ARMS = (
    qbheat('qbheat', 'QB-Heat'),
    qbheat('calibrated', 'random, with batch statistics of the images',
           'optim_wrapper.optimizer.lr=0.',
           'optim_wrapper.optimizer.weight_decay=0.',
           f'train_cfg.max_epochs={CALIBRATION}'),
    Arm('mocov2', 'MoCo-v2', MOCOV2,
        (f'train_dataloader.dataset.data_root={IMAGES}',
         f'model.queue_len={QUEUE}'), seeds=SEEDS),
    *FROM_CLASSES,
    qbheat('copied', 'A = B = 0, features copied',
           'model.predictor.prediction=copy'),
)

STUDY = Study(ARMS, PROBES, f"""All figures are of MF-285M on the images of
`{IMAGES}`, by the schedules of the configurations that the rows name, which
are not equally long.""")

_DECISIVE = tuple(
    (probe.name, metric) for probe in PROBES
    for metric in ('top-1', 'AP') if metric in probe.metrics)
_SHOWN = tuple((probe.name, metric) for probe in PROBES
               for metric in probe.metrics if metric not in INSIDE)
_OF_CLASSES = tuple(arm.name for arm in FROM_CLASSES)

QUESTIONS = (
    Question('works', 'Which pre-training for these images?', 'calibrated',
             ('qbheat', 'mocov2', *_OF_CLASSES), _DECISIVE, _SHOWN),
    Question('heat-equation', 'Is it the heat equation?', 'qbheat',
             ('copied', ), _DECISIVE, _SHOWN),
    *((Question('fine-tuning', 'Does fine-tuning gain from pre-training?',
                'supervised', ('fine-tuned', ), (('encoder', 'top-1'), )),
       Question('inside', 'What do features and tokens look like?',
                'calibrated', ('qbheat', 'mocov2', *_OF_CLASSES),
                tuple(('features', name) for name in INSIDE)))
      if FROM_CLASSES else ()),
)
