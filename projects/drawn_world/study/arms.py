# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The study: its arms, in the order of the questions they answer.

Unless their names say otherwise, all have the demo's encoder and data.
"""
from projects.drawn_world.study import (
    ACCURACY,
    DETECTION,
    Arm,
    Probe,
    Question,
    Study,
)

PRETRAIN = 'demo/qbheat_mf-demo_pretrain.py'
RANDOM = 'demo/qbheat_mf-demo_random.py'
MOCOV2 = 'demo/mocov2_mf-demo_pretrain.py'
LINEAR = 'demo/mf-demo_linear.py'
TRAN = 'demo/mf-demo_tran1.py'
FINETUNE = 'demo/mf-demo_finetune.py'
#: With fewer seeds no test can reach 0.05.
HEADLINE = 6


def epochs(number: int, evaluated: bool = True) -> list[str]:
    """Settings for a number of epochs, evaluated at the end."""
    options = [f'train_cfg.max_epochs={number}']
    return options + evaluated * [f'train_cfg.val_interval={number}']


INSIDE = ('token similarity', 'token similarity between images',
          'spatial correlation', 'effective rank')
FEATURES = {name: name for name in ('k-NN', *INSIDE)}
#: Rows have these, but nothing measures them any more: see
#: tools/analysis/spectrum.py.
MATRICES = [*(('features', f'{name}, {scale}')
              for scale in ('half', 'quarter')
              for name in ('energy ratio', 'commutator')),
            *(('matrices', name) for name in (
                'rank', 'complex eigenvalues', 'spectral norm',
                'scales, spectra', 'scales, two quarters', 'diagonals',
                'loss if copied'))]

PROBES = (
    Probe('lin', LINEAR, ACCURACY),
    Probe('tran-1', TRAN, ACCURACY),  # as short as in the demo
    Probe('tran-1-64', TRAN, ACCURACY, epochs(64)),
    Probe('features', LINEAR, FEATURES, measured=True),
    Probe('RetinaNet', 'demo/retinanet_mf-demo_fpn_frozen.py', DETECTION),
    # It detects nothing after the 6 epochs of its config.
    Probe('MF-Dec', 'demo/mf-dec_mf-demo_frozen.py', DETECTION, epochs(24)),
)
JUDGES = ('lin', 'tran-1-64', 'features', 'RetinaNet')


def qbheat(name: str, title: str, *options: str, probes=JUDGES,
           **settings) -> Arm:
    """QB-Heat with some settings changed."""
    return Arm(name, title, PRETRAIN, ('custom_hooks=[]', *options),
               probes=probes, **settings)


def trained(name: str, title: str, *options: str, probes=(),
            **settings) -> Arm:
    """Trained on labels, from random weights unless ``start`` is given."""
    scratch = () if 'start' in settings else (
        'model.backbone.init_cfg=None', )
    return Arm(name, title, FINETUNE, (*scratch, *options), probes=probes,
               metrics=ACCURACY, **settings)


def end_to_end(name: str, title: str, start: str = '') -> Arm:
    """A detector whose encoder is trained, too."""
    return Arm(name, title, None, start=start, probes=('RetinaNet', ),
               encoder=('model.backbone.frozen_stages=-1', ))


def of_size(name: str, stages: str) -> tuple[Arm, Arm]:
    """QB-Heat and random weights for an encoder of other stages."""
    encoder = (f'model.backbone.arch.stages={stages}', )
    return (qbheat(name, f'QB-Heat ({name} encoder)', encoder=encoder),
            Arm(f'{name}-calibrated', f'random (BN calibrated, {name} '
                'encoder)', RANDOM, encoder=encoder, probes=JUDGES))


def learning_rate(rate: float) -> tuple[str, ...]:
    """One learning rate for everything, tokens and Former included."""
    keys = 'optim_wrapper.paramwise_cfg.custom_keys'
    return (f'optim_wrapper.optimizer.lr={rate}',
            f'{keys}.tokens.lr_mult=1.0', f'{keys}.former.lr_mult=1.0')


FEW_LABELS = ('train_dataloader.dataset.indices=240', *epochs(200))
ARMS = (
    qbheat('qbheat', 'QB-Heat', probes=None, seeds=HEADLINE),
    Arm('calibrated', 'random (BN calibrated)', RANDOM, seeds=HEADLINE),
    # as many steps as QB-Heat
    trained('supervised', 'supervised (2,400 labels)', *epochs(30),
            probes=(*JUDGES, 'MF-Dec'), seeds=HEADLINE),
    # four epochs take about as long as QB-Heat's twelve
    Arm('mocov2-time', 'MoCo-v2 (equal time)', MOCOV2, epochs(4, False),
        probes=JUDGES, seeds=HEADLINE),
    Arm('mocov2', 'MoCo-v2 (equal epochs)', MOCOV2, probes=JUDGES),
    qbheat('copied', 'copy (A = B = 0)',
           'model.predictor.prediction=copy', seeds=HEADLINE),
    qbheat('mask-token', 'mask token',
           'model.predictor.prediction=mask_token', seeds=HEADLINE),
    qbheat('random-patches', 'random masking (MAE-style)',
           'model.type=RandomMasking', seeds=HEADLINE),
    qbheat('corner', 'corner crops only', 'model.position=corner',
           seeds=HEADLINE),
    qbheat('center', 'center crops only', 'model.position=center',
           seeds=HEADLINE),
    qbheat('2-models', '2 models', 'model.num_models=2', seeds=HEADLINE),
    qbheat('4-models', '4 models', 'model.num_models=4', seeds=HEADLINE),
    trained('all-labels', 'supervised (6,000 labels)',
            'train_dataloader.dataset.split=train', *epochs(12)),
    end_to_end('detector', 'end to end from random weights'),
    end_to_end('detector-qbheat', 'end to end from QB-Heat', 'qbheat'),
    end_to_end('detector-supervised',
               'end to end from supervised (2,400 labels)', 'supervised'),
    qbheat('full-rate', 'one learning rate, 2e-3', *learning_rate(2e-3)),
    qbheat('low-rate', 'one learning rate, 5e-4', *learning_rate(5e-4)),
    qbheat('normalised', 'normalized pixels (norm_pix)',
           'model.head.norm_pix=True'),
    qbheat('2x', 'QB-Heat, 2x epochs', *epochs(24, False)),
    qbheat('4x', 'QB-Heat, 4x epochs', *epochs(48, False),
           probes=(*JUDGES, 'MF-Dec')),
    qbheat('images-4x', 'QB-Heat, 4x images, equal steps',
           'train_dataloader.dataset.sizes=more', *epochs(3, False)),
    *of_size('smaller', '[[(lite,16,8)],[(mf-down,32,16)],[(mf-down,96,32)],'
             '[(mf-down,192,64)]]'),
    *of_size('larger', '[[(lite,16,8)],[(mf-down,32,16),(mf,48,16),'
             '(mf,48,16)],[(mf-down,96,32),(mf,128,32),(mf,128,32)],'
             '[(mf-down,192,64),(mf,256,64),(mf,256,64),(mf,256,64),'
             '(mf,256,64)]]'),
    trained('scratch', 'from scratch (2,400 labels, equal epochs)'),
    trained('scratch-240', 'from scratch (240 labels)', *FEW_LABELS),
    trained('fine-tuned-240', 'QB-Heat, fine-tuned (240 labels)',
            *FEW_LABELS, start='qbheat'),
    trained('fine-tuned', 'QB-Heat, fine-tuned (2,400 labels)',
            start='qbheat', probes=JUDGES),
)

BOXES = (('RetinaNet', 'AP'), ('RetinaNet', 'AP50'))
TRAN_64 = ('tran-1-64', 'top-1')
FEW = (('lin', 'top-1'), TRAN_64, ('features', 'k-NN'), *BOXES)
ITSELF = (('encoder', 'top-1'), )


def question(name: str, title: str, baseline: str, *arms: str,
             columns=FEW, paper: str = '') -> Question:
    """A question with the columns of most questions."""
    return Question(name, title, baseline, arms, columns, paper)


QUESTIONS = (
    question('works', 'Does QB-Heat pre-training help a frozen encoder?',
             'calibrated', 'qbheat', 'supervised', 'mocov2-time', 'mocov2'),
    question(
        'alternatives', 'QB-Heat or another method?', 'qbheat', 'supervised',
        'mocov2-time', 'mocov2', paper='frozen on COCO, AP is 2.6 to 5.2 '
        'above supervised ImageNet pre-training and 7.9 to 24.5 above MoCo-v2 '
        '(Table "COCO object detection results"); `tran-1` of MF-285M is 65.6 '
        'against 52.9 for MoCo-v2, `lin` on par.'),
    question('heat-equation', 'Is it the heat equation?', 'qbheat', 'copied',
             'mask-token', 'random-patches', paper='no such controls.'),
    question(
        'position', 'Which quarter should be visible?', 'qbheat', 'corner',
        'center', paper='`tran-1` of MF-3.7G on ImageNet is 77.9 with the '
        'corner, 77.9 with the center and 78.6 with both (Table "QB-Heat '
        'ablation experiments", a).'),
    question(
        'models', 'How many explicit models?', 'qbheat', '2-models',
        '4-models', paper='`tran-1` of MF-3.7G on ImageNet is 78.4 with 2, '
        '78.5 with 4 and 78.6 with 8 (Table "QB-Heat ablation experiments", '
        'b).'),
    question('headroom', 'How far is supervised training ahead?',
             'supervised', 'fine-tuned', 'all-labels', columns=ITSELF),
    question('boxes', 'How far is end-to-end detection ahead?', 'detector',
             'qbheat', 'supervised', 'calibrated', columns=BOXES),
    question(
        'whole-detector', 'Does end-to-end detection gain from pre-training?',
        'detector', 'detector-qbheat', 'detector-supervised', columns=BOXES,
        paper='fine-tuned on COCO with MF-Dec, QB-Heat is on par '
        'with supervised ImageNet pre-training, -0.4 to +0.5 AP (Table "COCO '
        'object detection results", fine-tuning the backbone).'),
    question(
        'fine-tuning', 'Does fine-tuning gain from pre-training?', 'scratch',
        'fine-tuned', columns=ITSELF, paper='fine-tuned on '
        'ImageNet it reaches 75.8 against 75.7 for supervised training '
        '(MF-285M), 80.5 against 79.4 (MF-1.0G) and 82.5 against 80.8 '
        '(MF-3.7G; Table "Fine-tuning results").'),
    question('few-labels', 'Does fine-tuning gain with 240 labels?',
             'scratch-240', 'fine-tuned-240', columns=ITSELF),
    question('rates', 'Which learning rates?', 'full-rate', 'qbheat',
             'low-rate', columns=(*FEW, ('features', INSIDE[0]),
                                  ('features', INSIDE[1]))),
    question('targets', 'Raw or normalized pixels?', 'qbheat', 'normalised'),
    question(
        'length', 'Does longer pre-training help?', 'qbheat', '2x', '4x',
        paper='`lin` and `tran-1` rise steadily with the schedule, '
        'fine-tuning does not depend on it (Figure "Training schedules").'),
    question('longer-alternatives',
             'QB-Heat or another method in about 4x the time?', '4x',
             'mocov2', 'random-patches'),
    question('images', 'Do more unlabeled images help?', 'qbheat',
             'images-4x'),
    question('smaller', 'Does a smaller encoder gain?', 'smaller-calibrated',
             'smaller'),
    question('larger', 'Does a larger encoder gain?', 'larger-calibrated',
             'larger'),
    question(
        'task-agnostic', 'Do class labels help detection?', 'qbheat',
        'fine-tuned', 'supervised', paper='fine-tuning on '
        'ImageNet raises the AP of the frozen encoder on COCO by 1.4 to 4.3 '
        '(Table "COCO object detection results").'),
    question(
        'probes', 'How long must a decoder be trained?', 'calibrated',
        'qbheat', 'random-patches', 'full-rate', '2x', 'images-4x',
        columns=(('lin', 'top-1'), ('tran-1', 'top-1'), TRAN_64),
        paper='with MF-3.7G on ImageNet `lin` is 65.1 and `tran-1` 78.6 '
        '(Table "QB-Heat ablation experiments").'),
    question(
        'detr', 'Does a DETR head learn on it?', 'calibrated', 'qbheat', '4x',
        'supervised', columns=(('MF-Dec', 'AP'), ('MF-Dec', 'AP50')),
        paper='MF-Dec-211 on '
        'the frozen MF-285M reaches an AP of 33.0 on COCO in 500 epochs '
        '(Table "COCO object detection results").'),
    question('inside', 'What do features and tokens look like?',
             'calibrated', 'qbheat', 'copied', 'supervised', 'mocov2',
             columns=[('features', name) for name in INSIDE]),
    question(
        'matrices', 'What do A and B look like?', 'calibrated', 'qbheat',
        columns=MATRICES,
        paper='full rank and complex eigenvalues; spectra and energy ratios '
        'agree at both scales; E(A) / E(B) falls from 0.94 after 200 epochs '
        'to 0.69 after 2400 (Table "Spectrum energy ratio").'),
)

STUDY = Study(ARMS, PROBES, QUESTIONS, about="""\
All figures are from drawn images and an encoder of half a million parameters:
**nothing here says anything about ImageNet or COCO.** [study.md](study.md)
explains data, arms and statistics, and what is unequal between arms.
`tran-1-64` is `tran-1` trained for 64 epochs; 16, as in the demo, are too
few.""")
