# Your own images, one folder per class, with RandAug and random erasing.
_base_ = ['./own_folders.py', './rand_augment.py']

crop_and_flip = _base_.train_pipeline[:-1]
pack = _base_.train_pipeline[-1]
pipeline_without_erasing = [*crop_and_flip, _base_.rand_augment, pack]
train_pipeline = [
    *crop_and_flip, _base_.rand_augment, _base_.random_erasing, pack
]

train_dataloader = dict(
    dataset=dict(pipeline=[_base_.load_and_crop, *train_pipeline[1:]]))
