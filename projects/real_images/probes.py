# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How encoders of real images are judged: classifiers and detectors."""
from projects.real_images.arms import CONFIGS, MAX_ITERS, TRAIN, config
from projects.real_images.layout import CLASSES as CLASSES_OF_BOXES
from projects.study import ACCURACY, DETECTION, Probe

CLASSIFY = CONFIGS.parent / 'classify.py'
CLASSES, BOXES = ('steel', 'clothing'), ('steel', 'pcb', 'blood')
#: Size of images with boxes, and steps of 16 of them.
DETECTORS = dict(steel=((200, 200), 700), pcb=((512, 512), 380),
                 blood=((512, 384), 300))


def classes(data: str, name: str = 'classes') -> Probe:
    """Classifiers on frozen features."""
    return Probe(f'{name}-{data}', config(name), {}, [
        f'{part}_dataloader.dataset.data_root=data/{data}'
        for part in ('train', 'val')], script=CLASSIFY)


def boxes(data: str, *options: str, name: str = 'RetinaNet') -> Probe:
    """RetinaNet on the frozen encoder."""
    size, steps = DETECTORS[data]
    kinds = CLASSES_OF_BOXES[data]
    settings = [
        f'{MAX_ITERS}={steps}', f'model.bbox_head.num_classes={len(kinds)}',
        f'val_evaluator.ann_file=data/{data}/annotations/test.json']
    for loader, resize in ((TRAIN, 2), ('val_dataloader', 1)):
        settings += [f'{loader}.dataset.data_root=data/{data}/',
                     f'{loader}.dataset.metainfo.classes={kinds}',
                     f'{loader}.dataset.pipeline.{resize}.scale={size}']
    return Probe(f'{name}-{data}', config('retinanet'), DETECTION,
                 [*settings, *options])


def boxes_tuning(data: str) -> Probe:
    """The same, tested on a third of the training images."""
    return boxes(
        data, f'{TRAIN}.dataset.ann_file=annotations/fit.json',
        'val_dataloader.dataset.ann_file=annotations/held.json',
        f'val_evaluator.ann_file=data/{data}/annotations/held.json',
        name='RetinaNet_tuning')


def tuned(data: str, count: int | None) -> Probe:
    """Fine-tuning with all labels, or with a few."""
    options = [f'{part}_dataloader.dataset.data_root=data/{data}'
               for part in ('train', 'val')]
    if count is None:
        return Probe(f'fine-tuned-{data}', config('finetune'), ACCURACY,
                     options)
    return Probe(f'fine-tuned-{data}-{count}', config('finetune'), ACCURACY, [
        *options, f'{TRAIN}.dataset.type=FewLabels',
        f'{TRAIN}.dataset.count={count}', f'{TRAIN}.dataset.seed={{seed}}',
        f'{TRAIN}.batch_size=30', f'{MAX_ITERS}=200'])


PROBES = [
    *(classes(data, name) for data in CLASSES
      for name in ('classes', 'classes_tuning')),
    *(boxes(data) for data in BOXES),
    *(boxes_tuning(data) for data in ('steel', 'pcb')),
    boxes('steel', 'model.backbone.frozen_stages=-1', 'custom_hooks=[]',
          name='RetinaNet-trained'),
    *(tuned(data, count) for data in CLASSES for count in (None, 30)),
]
