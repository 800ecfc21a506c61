# Pre-training on your own unlabeled images, in a flat or nested folder:
#   --cfg-options train_dataloader.dataset.data_root=FOLDER
# For thousands of images and two CPU cores or more. Smaller images and a
# smaller decoder than in the paper leave time for more steps, which did more
# for frozen features (docs/evidence.md). For the paper's decoder and batches,
# use the config that this one inherits from.
_base_ = './qbheat_mf-285m_1xb256-amp-coslr-400e_own-images.py'

# `teacher=FILE` distills a published encoder (docs/tutorials/own_encoder.md):
# its last map, and finer ones, which detectors read. `Distillation` learns the
# last map only, and `QBHeat` predicts that of the unseen quarters.
teacher = None
teacher_method = 'MultiScaleDistillation'
# Distillation stops after 40 epochs, since its steps, on whole images, take
# more than twice as long. With few images, it goes on until step 1,600, or
# `train_cfg.max_epochs`.
distillation = dict(epochs=40, steps=1600)

model = dict(
    predictor=dict(embed_dims=128),
    neck=dict(embed_dims=128, depth=2, num_heads=4))

pipeline = _base_.train_dataloader.dataset.pipeline
train_dataloader = dict(
    batch_size=64,
    dataset=dict(pipeline=[dict(pipeline[0], scale=128), *pipeline[1:]]))

# Tokens may collapse at this rate: they and their attention get a tenth of it.
optim_wrapper = dict(
    optimizer=dict(lr=2e-3),
    paramwise_cfg=dict(
        custom_keys={
            'backbone.tokens': dict(lr_mult=0.1),
            'former': dict(lr_mult=0.1)
        }))

train_cfg = dict(max_epochs=80)

auto_scale_lr = dict(base_batch_size=64)
