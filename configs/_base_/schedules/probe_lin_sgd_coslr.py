# Table 10. The paper states
# lr = base lr * batch size / 256 for pre-training only; we apply it to every
# "base learning rate", as MAE does.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='SGD',
        lr=0.1 * 4096 / 256,  # base learning rate, batch size
        momentum=0.9,  # not in the paper
        weight_decay=0.))

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-4,
        by_epoch=True,
        begin=0,
        end=10,
        convert_to_iter_based=True),
    dict(
        type='CosineAnnealingLR',
        by_epoch=True,
        begin=10,
        convert_to_iter_based=True)
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=90, val_interval=1)
val_cfg = dict()
test_cfg = dict()

# base_batch_size = (8 GPUs) x (512 images per GPU)
auto_scale_lr = dict(base_batch_size=4096)
