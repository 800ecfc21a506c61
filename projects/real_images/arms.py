# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Ways to pre-train on real images, and trials of their settings."""
from pathlib import Path

from projects.study import Arm

CONFIGS = Path(__file__).resolve().parent / 'configs'
#: What the README runs.
RECIPE = 'qbheat/qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py'
#: ImageNet's EfficientNet-Lite0, as tools/published.py writes it.
PUBLISHED = 'data/lite0.safetensors'
#: ImageNet's EfficientNet-Lite2, a larger teacher.
LARGER = 'data/lite2.safetensors'
#: Steps that take 600 CPU seconds.
STEPS = dict(qbheat=720, copy=720, masking=330, barlow=165, mocov2=220)
#: The same for other targets than pixels, measured in turn with `qbheat`.
TARGET_STEPS = dict(hog=650, teacher=665, both=660, copied=710,
                    masked=330, distilled=305)
TARGET_STEPS['several-maps'] = TARGET_STEPS['distilled']
#: Of both losses, as many as take the time of 305 and 720.
STEPS['several-maps-qbheat'] = 214
#: Steps of ResNet-18 with a teacher.
RESNET_TAUGHT = 185
#: Smallest number of steps of arms "(40 epochs)".
LEAST_STEPS = 'distillation.steps=800'
#: Where the teacher's maps are kept for all arms.
MAPS = 'model.target_generator.folder=work_dirs/teacher'
RATE = 'optim_wrapper.optimizer.lr'
MAX_ITERS = 'train_cfg.max_iters'
TRAIN = 'train_dataloader'
CROP = f'{TRAIN}.dataset.pipeline.0'
FINER_TEACHER = 'model.target_generator.size=448'
#: torch's initialization: of batch norm, this is the same.
TORCH_INIT = ("model.backbone.init_cfg={'type':'Constant',"
              "'layer':'_BatchNorm','val':1}")
#: A tenth of the rate for tokens and attention, or all of it.
_TOKENS = ("optim_wrapper.paramwise_cfg.custom_keys={{"
           "'backbone.tokens':{{'lr_mult':{0}}},'former':{{'lr_mult':{0}}}}}")
SLOW_TOKENS, FAST_TOKENS = _TOKENS.format(0.1), _TOKENS.format(1)


def config(name: str) -> str:
    """Path of a config of this study."""
    return str(CONFIGS / f'{name}.py')


def pretrained(data: str, name: str, title: str, method: str, steps: int,
               *options: str, start: str = '') -> Arm:
    """An arm that learns from the training images of a data set."""
    return Arm(f'{data}-{name}', title, config(method), (
        f'{TRAIN}.dataset.data_root=data/{data}/train',
        f'{MAX_ITERS}={steps}', *options), start=start)


def random(data: str) -> list[Arm]:
    """Random weights with batch norm statistics of the images."""
    return [
        pretrained(data, 'random', 'random weights', 'calibrate', 32),
        pretrained(data, 'random-torch', "torch's random weights",
                   'calibrate', 32, TORCH_INIT)]


def targets(data: str) -> list[Arm]:
    """Arms that predict something else than pixels."""
    def taught(name: str, title: str, method: str, *options: str,
               trial: str = '', teacher: str = PUBLISHED) -> Arm:
        return pretrained(
            data, f'{name}{trial}', title, 'qbheat', TARGET_STEPS[name],
            f'teacher={teacher}', f'teacher_method={method}', MAPS,
            *options)

    return [
        pretrained(data, 'hog-target', 'HOG', 'hog', TARGET_STEPS['hog']),
        taught('teacher', 'teacher', 'QBHeat'),
        taught('both', 'teacher and pixels', 'QBHeat',
               'model.with_pixels=True'),
        taught('copied', 'teacher (A = B = 0)', 'QBHeat',
               'model.predictor.prediction=copy'),
        taught('masked', 'teacher (random masking)', 'RandomMasking'),
        taught('distilled', 'distillation', 'Distillation'),
        taught('several-maps', 'several maps',
               'MultiScaleDistillation'),
        taught('several-maps', 'several maps of EfficientNet-Lite2',
               'MultiScaleDistillation', trial='-lite2', teacher=LARGER),
        pretrained(data, 'several-maps-qbheat', 'several maps and QB-Heat',
                   'multi_scale_qbheat', STEPS['several-maps-qbheat']),
        # Written by lightly_rival.py
        Arm(f'{data}-lightly', "LightlyTrain's distillation", None,
            weights=f'data/lightly-{data}.safetensors'),
        taught('distilled', 'distillation (crop 0.5)', 'Distillation',
               f'{CROP}.crop_ratio_range=(0.5,1.0)', trial='-0.5'),
        taught('distilled', 'distillation (teacher at 448 pixels)',
               'Distillation', FINER_TEACHER, trial='-448'),
    ]


def taught_recipes(data: str) -> list[Arm]:
    """The recipe with a teacher, in 40 epochs and as shipped."""
    common = (f'{TRAIN}.dataset.data_root=data/{data}/train',
              f'teacher={PUBLISHED}')
    return [
        Arm(f'{data}-distilled-recipe', 'distillation (40 epochs)', RECIPE,
            (*common, 'teacher_method=Distillation', MAPS, LEAST_STEPS)),
        Arm(f'{data}-several-maps-recipe', 'several maps (40 epochs)',
            RECIPE, (*common, 'teacher_method=MultiScaleDistillation', MAPS,
                     LEAST_STEPS)),
        Arm(f'{data}-several-maps-shipped', 'several maps (as shipped)',
            RECIPE, (*common, MAPS))]


def own_networks_and_few_images(data: str) -> list[Arm]:
    """ResNet-18 from random weights, and the recipe on few images."""
    teacher = (f'teacher={PUBLISHED}', 'teacher_method=Distillation', MAPS)
    folder = f'{TRAIN}.dataset.data_root=data/{data}/train'
    few = config('few_images')
    return [
        pretrained(data, 'resnet', 'ResNet-18 (pixels)', 'resnet18', 600),
        pretrained(data, 'resnet-distilled', 'ResNet-18 (distillation)',
                   'resnet18', RESNET_TAUGHT, *teacher),
        pretrained(data, 'resnet-several-maps', 'ResNet-18 (several maps)',
                   'resnet18', RESNET_TAUGHT, f'teacher={PUBLISHED}',
                   'teacher_method=MultiScaleDistillation', MAPS),
        Arm(f'{data}-few', 'pixels (80 epochs)', few, (folder, )),
        Arm(f'{data}-few-distilled', 'distillation (40 epochs)', few,
            (folder, *teacher, 'distillation.steps=0')),
        Arm(f'{data}-few-distilled-80', 'distillation (80 epochs)', few,
            (folder, *teacher, 'distillation.epochs=80'))]


def arms(data: str) -> list[Arm]:
    """All arms of a data set."""
    published = f'{data}-published'
    return [
        *random(data),
        Arm(f'{data}-hog', 'HOG (no learning)', None, features='hog'),
        Arm(f'{data}-thumbnails', '16 x 16 thumbnails', None,
            features='thumbnails'),
        pretrained(data, 'qbheat', 'QB-Heat', 'qbheat', STEPS['qbheat']),
        Arm(f'{data}-recipe', 'QB-Heat (80 epochs)', RECIPE, (
            f'{TRAIN}.dataset.data_root=data/{data}/train', )),
        pretrained(data, 'copy', 'A = B = 0', 'qbheat', STEPS['copy'],
                   'model.predictor.prediction=copy'),
        pretrained(data, 'masking', 'random masking', 'qbheat',
                   STEPS['masking'], 'model.type=RandomMasking'),
        pretrained(data, 'barlow', 'Barlow Twins', 'barlowtwins',
                   STEPS['barlow']),
        pretrained(data, 'mocov2', 'MoCo-v2', 'mocov2', STEPS['mocov2']),
        Arm(published, 'EfficientNet-Lite0', None,
            weights=PUBLISHED),
        Arm(f'{published}-lite2', 'EfficientNet-Lite2', None,
            weights=LARGER),
        pretrained(data, 'published-qbheat', 'ImageNet then QB-Heat',
                   'qbheat', STEPS['qbheat'] // 2, f'{RATE}=2e-4',
                   start=published),
        pretrained(data, 'published-barlow', 'ImageNet then Barlow Twins',
                   'barlowtwins', STEPS['barlow'] // 2, f'{RATE}=6e-5',
                   start=published),
        *targets(data),
        *taught_recipes(data),
        *own_networks_and_few_images(data),
    ]


# ---------------------------------------------------------------------- trials

RAW = 'model.head.norm_pix=False'
BASE = (RAW, f'{RATE}=6e-4', FAST_TOKENS)
#: Trials: steps that take equal time, except in "4 times", and options. The
#: recipe has what won: slow tokens at a higher rate, and normalized pixels.
FAST_TRIALS = {
    'base': (360, ()),
    '192 pixels': (180, (f'{CROP}.scale=192', )),
    '256 x 4': (195, (
        'model.predictor.embed_dims=256', 'model.neck.embed_dims=256',
        'model.neck.depth=4', 'model.neck.num_heads=8')),
    'rate 2e-3': (360, (f'{RATE}=2e-3', )),
    'rate 2e-4': (360, (f'{RATE}=2e-4', )),
    'batch 32': (720, (f'{TRAIN}.batch_size=32', )),
    'torch init': (360, (TORCH_INIT, )),
}
TRIALS = {
    **{name: (steps, (*BASE, *options))
       for name, (steps, options) in FAST_TRIALS.items()},
    'slow tokens': (360, (RAW, )),
    'slow tokens, 4 times': (1440, (RAW, )),
    'slow tokens, normalized': (360, ()),
    'normalized, crop 0.5': (360, (f'{CROP}.crop_ratio_range=(0.5,1.0)', )),
    'normalized, crop 0.08': (360, (f'{CROP}.crop_ratio_range=(0.08,1.0)', )),
}


def trials(data: str) -> list[Arm]:
    """Trials of settings, and the controls that tell what they are worth."""
    tried = []
    for name, (steps, options) in TRIALS.items():
        tried.append(pretrained(data, _plain(name), name, 'qbheat', steps,
                                *options))
    tried.append(pretrained(
        data, 'whole', 'slow tokens, 4 times, then batch norm of whole images',
        'calibrate', 32, start=f'{data}-slow-tokens-4-times'))
    for rate in (6e-4, 2e-3):
        for tokens, option in (('slow', SLOW_TOKENS), ('fast', FAST_TOKENS)):
            tried.append(pretrained(
                data, f'tune-barlow-{rate:g}-{tokens}',
                f'Barlow Twins, {rate:g}, {tokens} tokens', 'barlowtwins',
                STEPS['barlow'] // 2, f'{RATE}={rate}', option))
    return tried


def _plain(name: str) -> str:
    """Make a trial's name the name of a folder."""
    return name.replace(',', '').replace(' ', '-')


#: Settings of several maps: steps that take equal time, and options. The last
#: three vary the length.
MAP_TRIALS = {
    'base': (305, ()),
    'only 16 and 32': (305, ('model.pairs=[(16,16),(16,32)]', )),
    'only 8 and 32': (305, ('model.pairs=[(8,8),(16,32)]', )),
    'cosine': (305, ('model.smooth_l1=0', 'model.cosine=1')),
    'smooth L1 and cosine': (305, ('model.cosine=1', )),
    'stride 8 twice': (305, ("model.weights={'8':2.}", )),
    'stride 16 twice': (305, ("model.weights={'16':2.}", )),
    'rate 4e-3': (305, (f'{RATE}=4e-3', )),
    'rate 1e-3': (305, (f'{RATE}=1e-3', )),
    'batch 32': (610, (f'{TRAIN}.batch_size=32', )),
    'crop 0.5': (305, (f'{CROP}.crop_ratio_range=(0.5,1.0)', )),
    '192 pixels': (150, (f'{CROP}.scale=192', )),
    'small crops, teacher at 448': (305, (
        f'{CROP}.crop_ratio_range=(0.05,0.5)', FINER_TEACHER)),
    '390 steps, 192 pixels': (390, (f'{CROP}.scale=192', )),
    '3 times': (915, ()),
    '800 steps': (800, ()),
    '1,600 steps': (1600, ()),
}


def map_trials(data: str) -> list[Arm]:
    """Trials of settings of several maps."""
    tried = []
    for name, (steps, options) in MAP_TRIALS.items():
        tried.append(pretrained(data, f'maps-{_plain(name)}', name,
                                'multi_scale', steps, *options))
    return tried
