# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The arms of the study, in the order of the questions that they answer.

All but those named otherwise have the demo's encoder and data. An arm's seed
fixes its weights at the start, the order of its data, and its probes.
"""
from qbheat_mm.study import Arm, Probe, Study
from qbheat_mm.study.report import Question

HEADLINE = 6  # seeds; with fewer no test can reach 0.05
OTHERS = 3

PRETRAIN = 'demo/qbheat_mf-demo_pretrain.py'

ACCURACY = {'top-1': ('accuracy/top1', 1)}
DETECTION = {'AP': ('coco/bbox_mAP', 100), 'AP50': ('coco/bbox_mAP_50', 100)}

PROBES = (
    Probe('lin', 'demo/mf-demo_linear.py', ACCURACY),
    Probe('tran-1', 'demo/mf-demo_tran1.py', ACCURACY),
    Probe('RetinaNet', 'demo/retinanet_mf-demo_fpn_frozen.py', DETECTION),
    Probe('MF-Dec', 'demo/mf-dec_mf-demo_frozen.py', DETECTION),
)


def qbheat(name: str, title: str, *options: str, **settings) -> Arm:
    """QB-Heat with some settings changed."""
    return Arm(name, title, PRETRAIN,
               ('custom_hooks=[]', *options), **settings)


ARMS = (
    # Does it work?
    qbheat('qbheat', 'QB-Heat', seeds=HEADLINE),
    Arm('calibrated', 'random, with batch statistics of the images',
        'demo/qbheat_mf-demo_random.py', seeds=HEADLINE),
    # Is it the heat equation?
    qbheat('copied', 'A = B = 0, features copied',
           'model.predictor.prediction=copy', seeds=HEADLINE),
    qbheat('mask-token', 'a learned mask token',
           'model.predictor.prediction=mask_token', seeds=HEADLINE),
    # Where should the quarter stand?
    qbheat('corner', 'corner', 'model.position=corner', seeds=HEADLINE),
    qbheat('center', 'center', 'model.position=center', seeds=HEADLINE),
    # How many models?
    qbheat('2-models', '2 models', 'model.num_models=2', seeds=HEADLINE),
    qbheat('4-models', '4 models', 'model.num_models=4', seeds=HEADLINE),
    # Does it gain from longer training?
    qbheat('2x', 'twice as long', 'train_cfg.max_epochs=24', seeds=OTHERS),
    qbheat('4x', 'four times as long', 'train_cfg.max_epochs=48',
           seeds=OTHERS),
)

STUDY = Study(ARMS, PROBES)

_DECISIVE = (('tran-1', 'top-1'), ('RetinaNet', 'AP'))

QUESTIONS = (
    Question('works', 'Does QB-Heat pre-training help a frozen encoder?',
             'calibrated', ('qbheat', ), _DECISIVE),
    Question('heat-equation', 'Is it the heat equation?', 'qbheat',
             ('copied', 'mask-token'), _DECISIVE),
    Question('position', 'Where should the visible quarter stand?', 'qbheat',
             ('corner', 'center'), _DECISIVE),
    Question('models', 'How many explicit models?', 'qbheat',
             ('2-models', '4-models'), _DECISIVE),
    Question('length', 'Does longer pre-training help?', 'qbheat',
             ('2x', '4x'), _DECISIVE),
)
