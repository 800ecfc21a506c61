# ImageNet-1K with RandAug and random erasing of a quarter of the images
# (Tables 11 and 12).
# `pipeline_without_erasing` is for the configs that don't erase.
_base_ = ['./imagenet_cls.py', './rand_augment.py']

crop_and_flip = _base_.train_pipeline[:-1]
pack = _base_.train_pipeline[-1]
pipeline_without_erasing = [*crop_and_flip, _base_.rand_augment, pack]
train_pipeline = [
    *crop_and_flip, _base_.rand_augment, _base_.random_erasing, pack
]

train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
