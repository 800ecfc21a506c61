# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The study that PLAN.md describes: its arms, probes and questions."""
from pathlib import Path

from projects.drawn_world.study import Arm, Probe, Question, Study

HERE = Path(__file__).resolve().parent
CONFIGS, CLASSIFY = HERE / 'configs', HERE / 'classify.py'
TUNING = 99
CLASSES = ('steel', 'clothing')
RATE = 'optim_wrapper.optimizer.lr'
STEPS = 'train_cfg.max_iters'
BATCH = 'train_dataloader.batch_size'
CROP = 'train_dataloader.dataset.pipeline.0'
#: Decoders: width, depth and heads.
DECODER = ('model.predictor.embed_dims={0}', 'model.neck.embed_dims={0}',
           'model.neck.depth={1}', 'model.neck.num_heads={2}')
#: torch's initialization: of batch norm, this is the same.
TORCH_INIT = ("model.backbone.init_cfg={'type':'Constant',"
              "'layer':'_BatchNorm','val':1}")


def images(data: str) -> str:
    """The option that names the training images."""
    return f'train_dataloader.dataset.data_root=data/{data}/train'


def classes(data: str, tuning: bool = False) -> Probe:
    """Judge features by classifiers."""
    name = 'classes_tuning' if tuning else 'classes'
    return Probe(
        f'{name}-{data}', str(CONFIGS / f'{name}.py'), {}, tuple(
            f'{part}_dataloader.dataset.data_root=data/{data}'
            for part in ('train', 'val')), script=CLASSIFY)


def decoder(width: int, depth: int) -> tuple[str, ...]:
    """Options of a decoder."""
    return tuple(option.format(width, depth, max(4, width // 32))
                 for option in DECODER)


#: Trials of settings: steps that take equal time, and options.
TRIALS = {
    'base': (360, ()),
    '192 pixels': (180, (f'{CROP}.scale=192', )),
    '256 x 4': (195, decoder(256, 4)),
    'rate 2e-3': (360, (f'{RATE}=2e-3', )),
    'rate 2e-4': (360, (f'{RATE}=2e-4', )),
    'batch 32': (720, (f'{BATCH}=32', )),
    'batch 128': (180, (f'{BATCH}=128', )),
    'normalized': (360, ('model.head.norm_pix=True', )),
    'torch init': (360, (TORCH_INIT, )),
    'crop 0.5': (360, (f'{CROP}.crop_ratio_range=(0.5,1.0)', )),
    'crop 0.08': (360, (f'{CROP}.crop_ratio_range=(0.08,1.0)', )),
    '4 times': (1440, ()),
    '512 x 6': (60, decoder(512, 6)),
    '256 pixels': (100, (f'{CROP}.scale=256', )),
}


def trial(data: str, name: str) -> str:
    """Name of the arm that tries settings."""
    return f'{data}-{name.replace(" ", "-")}'


ARMS = [
    Arm(trial(data, name), f'{data}, {name}', str(CONFIGS / 'qbheat.py'),
        (images(data), f'{STEPS}={steps}', *options))
    for name, (steps, options) in TRIALS.items() for data in CLASSES]
PROBES = [classes(data, tuning=True) for data in CLASSES]
QUESTIONS = [
    Question(f'tuning-{data}', f'Which settings? ({data})', 'tran-1',
             seeds=(TUNING, ), table=[trial(data, name) for name in TRIALS],
             columns=[(f'classes_tuning-{data}', metric)
                      for metric in ('tran-1', 'lin', 'ridge')])
    for data in CLASSES]

STUDY = Study(ARMS, PROBES, QUESTIONS, about="""\
Real images, MF-285M and published weights.""")
