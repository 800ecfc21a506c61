# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The arms of the study, in the order of the questions that they answer.

All but those named otherwise have the demo's encoder and data. An arm's seed
fixes its weights at the start, the order of its data, and its probes.
"""
from projects.drawn_world.study import ACCURACY, DETECTION, Arm, Probe, Study
from projects.drawn_world.study.tables import Question

HEADLINE = 6  # seeds; with fewer no test can reach 0.05
OTHERS = 3

PRETRAIN = 'demo/qbheat_mf-demo_pretrain.py'
LINEAR = 'demo/mf-demo_linear.py'
FINETUNE = 'demo/mf-demo_finetune.py'
RETINANET = 'demo/retinanet_mf-demo_fpn_frozen.py'
FROM_SCRATCH = 'model.backbone.init_cfg=None'
#: A detector of which nothing is frozen.
WHOLE = 'model.backbone.frozen_stages=-1'
#: A tenth of the labels, for as many steps as all of them take.
FEW_LABELS = ('train_dataloader.dataset.indices=240',
              'train_cfg.max_epochs=200', 'train_cfg.val_interval=200')

#: What is measured without training, of all encoders and of linear models.
FEATURES = ('k-NN', 'token similarity', 'token similarity between images',
            'spatial correlation', 'effective rank')
MATRICES = tuple(f'{name}, {scale}' for scale in ('half', 'quarter')
                 for name in ('energy ratio', 'commutator'))
#: The same of all linear models of a study's standard encoder, on images
#: that they were not trained on.
LINEAR_MODELS = ('rank', 'complex eigenvalues', 'spectral norm',
                 'scales, spectra', 'scales, two quarters', 'diagonals',
                 'loss if copied')

PROBES = (
    Probe('lin', LINEAR, ACCURACY),
    # as long as in the demo, where its loss is far from its end
    Probe('tran-1', 'demo/mf-demo_tran1.py', ACCURACY),
    Probe('tran-1-64', 'demo/mf-demo_tran1.py', ACCURACY,
          ('train_cfg.max_epochs=64', 'train_cfg.val_interval=64')),
    Probe('features', LINEAR,
          {name: (name, 1) for name in FEATURES + MATRICES},
          tool='study/features.py'),
    Probe('matrices', PRETRAIN, {name: (name, 1) for name in LINEAR_MODELS},
          ('train_dataloader.dataset.split=val', ),
          tool='study/matrices.py'),
    Probe('RetinaNet', RETINANET, DETECTION),
    # after the 2250 steps of its configuration it finds nothing
    Probe('MF-Dec', 'demo/mf-dec_mf-demo_frozen.py', DETECTION,
          ('train_cfg.max_epochs=24', 'train_cfg.val_interval=24')),
)
#: MF-Dec takes longer than all others, and `tran-1` in the demo's few epochs
#: says less than `tran-1-64`: the two that all others go by have them alone.
JUDGES = ('lin', 'tran-1-64', 'features', 'RetinaNet')

#: Stages of other encoders with the same outputs; the demo's is between them.
SMALLER = ('[[(lite,16,8)],[(mf-down,32,16)],[(mf-down,96,32)],'
           '[(mf-down,192,64)]]')
LARGER = ('[[(lite,16,8)],[(mf-down,32,16),(mf,48,16),(mf,48,16)],'
          '[(mf-down,96,32),(mf,128,32),(mf,128,32)],[(mf-down,192,64),'
          '(mf,256,64),(mf,256,64),(mf,256,64),(mf,256,64)]]')


def qbheat(name: str, title: str, *options: str, **settings) -> Arm:
    """QB-Heat with some settings changed."""
    return Arm(name, title, PRETRAIN,
               ('custom_hooks=[]', *options), **settings)


def calibrated(name: str, title: str, **settings) -> Arm:
    """Random weights; batch norm has the statistics of the images."""
    return Arm(name, title, 'demo/qbheat_mf-demo_random.py', **settings)


def of_size(name: str, stages: str) -> tuple[Arm, Arm]:
    """QB-Heat and random weights of an encoder of other stages."""
    settings = dict(encoder=(f'model.backbone.arch.stages={stages}', ),
                    probes=JUDGES, seeds=OTHERS)
    return (qbheat(name, f'QB-Heat, {name} encoder', **settings),
            calibrated(f'{name}-calibrated', f'random, {name} encoder',
                       **settings))


def _rates(rate: float, share: float) -> tuple[str, ...]:
    """The learning rate, and the share of it for tokens and Former."""
    keys = 'optim_wrapper.paramwise_cfg.custom_keys'
    return (f'optim_wrapper.optimizer.lr={rate}',
            f'{keys}.tokens.lr_mult={share}', f'{keys}.former.lr_mult={share}')


ARMS = (
    # Does it work?
    qbheat('qbheat', 'QB-Heat', seeds=HEADLINE),
    calibrated('calibrated', 'random, with batch statistics of the images',
               seeds=HEADLINE),
    # as many steps as QB-Heat has, 37 an epoch in the place of 93
    Arm('supervised', 'supervised by the few labels', FINETUNE,
        (FROM_SCRATCH, 'train_cfg.max_epochs=30',
         'train_cfg.val_interval=30'), probes=(*JUDGES, 'MF-Dec'),
        seeds=HEADLINE, metrics=ACCURACY),
    Arm('mocov2-time', 'MoCo-v2 for as long',
        'demo/mocov2_mf-demo_pretrain.py', time_of=('mocov2', 'qbheat'),
        probes=JUDGES, seeds=HEADLINE),
    Arm('mocov2', 'MoCo-v2, as many epochs',
        'demo/mocov2_mf-demo_pretrain.py', probes=JUDGES,
        seeds=OTHERS),
    # Is it the heat equation?
    qbheat('copied', 'A = B = 0, features copied',
           'model.predictor.prediction=copy',
           probes=JUDGES, seeds=HEADLINE),
    qbheat('mask-token', 'a learned mask token',
           'model.predictor.prediction=mask_token',
           probes=JUDGES, seeds=HEADLINE),
    qbheat('random-patches', 'patches hidden at random, whole images',
           'model.type=RandomMasking', probes=JUDGES,
           seeds=HEADLINE),
    # Where should the quarter stand?
    qbheat('corner', 'the corner alone', 'model.position=corner',
           probes=JUDGES, seeds=HEADLINE),
    qbheat('center', 'the center alone', 'model.position=center',
           probes=JUDGES, seeds=HEADLINE),
    # How many models?
    qbheat('2-models', '2 models', 'model.num_models=2',
           probes=JUDGES, seeds=HEADLINE),
    qbheat('4-models', '4 models', 'model.num_models=4',
           probes=JUDGES, seeds=HEADLINE),
    # How much is there to gain?
    Arm('all-labels', 'supervised by all labels', FINETUNE,
        (FROM_SCRATCH, 'train_dataloader.dataset.split=train',
         'train_cfg.max_epochs=12', 'train_cfg.val_interval=12'),
        probes=(), seeds=OTHERS, metrics=ACCURACY),
    Arm('detector', 'trained with the detector, from random weights', None,
        encoder=(WHOLE, ), probes=('RetinaNet', ), seeds=OTHERS),
    # Does that gain from pre-training, too?
    Arm('detector-qbheat', 'QB-Heat, then trained with the detector', None,
        start='qbheat', encoder=(WHOLE, ), probes=('RetinaNet', ),
        seeds=OTHERS),
    Arm('detector-supervised', 'the few labels, then trained with the '
        'detector', None, start='supervised', encoder=(WHOLE, ),
        probes=('RetinaNet', ), seeds=OTHERS),
    # Which rates?
    qbheat('full-rate', 'one rate for all, 2e-3', *_rates(2e-3, 1.),
           probes=JUDGES, seeds=OTHERS),
    qbheat('low-rate', 'one rate for all, 5e-4', *_rates(5e-4, 1.),
           probes=JUDGES, seeds=OTHERS),
    # What should be painted?
    qbheat('normalised', 'pixels normalised patch by patch',
           'model.head.norm_pix=True', probes=JUDGES, seeds=OTHERS),
    # Does it gain from longer training, from more images?
    qbheat('2x', 'twice as long', 'train_cfg.max_epochs=24',
           probes=JUDGES, seeds=OTHERS),
    qbheat('4x', 'four times as long', 'train_cfg.max_epochs=48',
           probes=(*JUDGES, 'MF-Dec'), seeds=OTHERS),
    qbheat('images-4x', 'four times the images, as many steps',
           'train_dataloader.dataset.sizes=more', 'train_cfg.max_epochs=3',
           probes=JUDGES, seeds=OTHERS),
    # Does it gain from size?
    *of_size('smaller', SMALLER),
    *of_size('larger', LARGER),
    # Does it pay where labels are to be had?
    Arm('scratch', 'from scratch on the few labels, as many epochs', FINETUNE,
        (FROM_SCRATCH, ), probes=(), seeds=OTHERS, metrics=ACCURACY),
    Arm('scratch-240', 'from scratch on a tenth of them', FINETUNE,
        (FROM_SCRATCH, *FEW_LABELS), probes=(), seeds=OTHERS,
        metrics=ACCURACY),
    Arm('fine-tuned-240', 'QB-Heat, then fine-tuned on a tenth of them',
        FINETUNE, FEW_LABELS, start='qbheat', probes=(), seeds=OTHERS,
        metrics=ACCURACY),
    # Is an encoder that has learned classes better or worse for detection?
    Arm('fine-tuned', 'QB-Heat, then fine-tuned on the few labels', FINETUNE,
        start='qbheat', probes=JUDGES, seeds=OTHERS,
        metrics=ACCURACY),
)

ABOUT = """All figures are of drawn images and of an encoder of half a
million parameters: **nothing here says anything about ImageNet or COCO.**
[study.md](study.md) says what the data, the arms and the statistics are, what
is unequal between arms (with seed 0, the only one of many, QB-Heat was near
its best), and what none of this can show. `tran-1-64` is `tran-1` trained for
64 epochs; 16, as in the demo, are too few."""
STUDY = Study(ARMS, PROBES, ABOUT)

_DECISIVE = (('tran-1-64', 'top-1'), ('RetinaNet', 'AP'))
_FEW = (('lin', 'top-1'), ('tran-1-64', 'top-1'), ('features', 'k-NN'),
        ('RetinaNet', 'AP'), ('RetinaNet', 'AP50'))
_LENGTHS = tuple((name, 'top-1') for name in ('lin', 'tran-1', 'tran-1-64'))
_INSIDE = tuple(('features', name) for name in FEATURES[1:])
_MATRICES = (*(('features', name) for name in MATRICES),
             *(('matrices', name) for name in LINEAR_MODELS))
_MATRICES_DECISIVE = (('features', 'energy ratio, half'),
                      ('matrices', 'complex eigenvalues'),
                      ('matrices', 'scales, spectra'),
                      ('matrices', 'loss if copied'))


def question(name: str, title: str, baseline: str, *arms: str,
             paper: str = '') -> Question:
    """A question that `tran-1-64` and RetinaNet decide."""
    return Question(name, title, baseline, arms, _DECISIVE, _FEW, paper)


QUESTIONS = (
    question('works', 'Does QB-Heat pre-training help a frozen encoder?',
             'calibrated', 'qbheat', 'supervised', 'mocov2-time', 'mocov2'),
    question('alternatives', 'QB-Heat, or something else?', 'qbheat',
             'supervised', 'mocov2-time', 'mocov2',
             paper='frozen on COCO its AP is 2.6 to 5.2 above supervised '
             'pre-training on ImageNet and 7.9 to 24.5 above MoCo-v2 (Table '
             '"COCO object detection results", six pairs of encoder and '
             'head); `tran-1` of MF-285M is 65.6 for 52.9 of MoCo-v2, `lin` '
             'on par, and classification "far behind" supervised '
             'pre-training.'),
    question('heat-equation', 'Is it the heat equation?', 'qbheat',
             'copied', 'mask-token', 'random-patches',
             paper='no such controls.'),
    question('position', 'Where should the visible quarter stand?', 'qbheat',
             'corner', 'center',
             paper='`tran-1` of MF-3.7G on ImageNet is 77.9 with the corner, '
             '77.9 with the center, 78.6 with both (Table "QB-Heat ablation '
             'experiments", a).'),
    question('models', 'How many explicit models?', 'qbheat', '2-models',
             '4-models',
             paper='`tran-1` of MF-3.7G on ImageNet is 78.4 with 2, 78.5 '
             'with 4, 78.6 with 8 (Table "QB-Heat ablation experiments", '
             'b).'),
    Question('headroom', 'How far is it to supervised training?',
             'supervised', ('fine-tuned', 'all-labels'),
             (('encoder', 'top-1'), )),
    Question('boxes', 'How far is it to a detector that is not frozen?',
             'detector', ('qbheat', 'supervised', 'calibrated'),
             (('RetinaNet', 'AP'), ),
             (('RetinaNet', 'AP'), ('RetinaNet', 'AP50'))),
    Question('whole-detector', 'Does a detector that is not frozen gain from '
             'pre-training?', 'detector',
             ('detector-qbheat', 'detector-supervised'),
             (('RetinaNet', 'AP'), ),
             (('RetinaNet', 'AP'), ('RetinaNet', 'AP50')),
             'fine-tuned on COCO with MF-Dec, QB-Heat is on par with '
             'supervised pre-training on ImageNet, -0.4 to +0.5 AP (Table '
             '"COCO object detection results", fine-tuning the backbone).'),
    Question('fine-tuning', 'Does fine-tuning gain from pre-training?',
             'scratch', ('fine-tuned', ), (('encoder', 'top-1'), ),
             paper='fine-tuned on ImageNet it reaches 75.8 for 75.7 of '
             'supervised training (MF-285M), 80.5 for 79.4 (MF-1.0G), 82.5 '
             'for 80.8 (MF-3.7G; Table "Fine-tuning results").'),
    Question('few-labels', 'Does fine-tuning gain with 240 labels?',
             'scratch-240', ('fine-tuned-240', ), (('encoder', 'top-1'), )),
    Question('rates', 'Which rates do tokens and convolutions want?',
             'full-rate', ('qbheat', 'low-rate'), _DECISIVE,
             (*_FEW, *(('features', name) for name in FEATURES[1:3]))),
    question('targets', 'Pixels as they are, or normalised by patches?',
             'qbheat', 'normalised'),
    question('length', 'Does longer pre-training help?', 'qbheat', '2x',
             '4x',
             paper='`lin` and `tran-1` rise steadily with the schedule, '
             'fine-tuning does not depend on it (Figure "Training '
             'schedules").'),
    question('longer-alternatives',
             'Four times as long, or something else in about that time?',
             '4x', 'mocov2', 'random-patches'),
    question('images', 'Do more images without labels help?', 'qbheat',
             'images-4x'),
    question('smaller', 'Does a smaller encoder gain?', 'smaller-calibrated',
             'smaller'),
    question('larger', 'Does a larger encoder gain?', 'larger-calibrated',
             'larger'),
    Question('task-agnostic', 'Do classes help detection?', 'qbheat',
             ('fine-tuned', 'supervised'), (('RetinaNet', 'AP'), ), _FEW,
             'fine-tuning on ImageNet raises the AP of the frozen encoder on '
             'COCO by 1.4 to 4.3 (Table "COCO object detection results").'),
    Question('probes', 'How long must a decoder be trained?', 'calibrated',
             ('qbheat', 'random-patches', 'full-rate', '2x', 'images-4x'),
             _LENGTHS,
             paper='with MF-3.7G on ImageNet `lin` is 65.1 and `tran-1` 78.6 '
             '(Table "QB-Heat ablation experiments").'),
    Question('detr', 'Does a DETR head learn on it?', 'calibrated',
             ('qbheat', '4x', 'supervised'), (('MF-Dec', 'AP50'), ),
             (('MF-Dec', 'AP'), ('MF-Dec', 'AP50')),
             'MF-Dec-211 on the frozen MF-285M reaches an AP of 33.0 on COCO '
             'in 500 epochs (Table "COCO object detection results").'),
    Question('inside', 'What do features and tokens look like?',
             'calibrated', ('qbheat', 'copied', 'supervised', 'mocov2'),
             _INSIDE[:2], _INSIDE),
    Question('matrices', 'What do A and B look like, and what are they worth?',
             'calibrated', ('qbheat', ), _MATRICES_DECISIVE, _MATRICES,
             paper='they have full rank and complex eigenvalues; spectra and '
             'energy ratios agree at both scales, and E(A) / E(B) falls from '
             '0.94 after 200 epochs to 0.69 after 2400 (Table "Spectrum '
             'energy ratio").'),
)
