# Pre-training on your own unlabeled images, in a flat or nested folder, on one
# GPU:
#   --cfg-options train_dataloader.dataset.data_root=FOLDER
# The paper's schedule, scaled to the batch size. Gradient accumulation doesn't
# make up for a small batch, since BN sees one batch at a time.
_base_ = './qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'

train_dataloader = dict(
    batch_size=256,
    dataset=dict(
        _delete_=True,
        type='NamedImageFolder',
        data_root='data/images',
        with_label=False,
        # Stop at damaged files, unlike for ImageNet.
        pipeline=[
            dict(_base_.train_pipeline[0], ignore_empty=False),
            *_base_.train_pipeline[1:]
        ]))

optim_wrapper = dict(optimizer=dict(lr=1.5e-4 * 256 / 256))

train_cfg = dict(max_epochs=400)

auto_scale_lr = dict(base_batch_size=256)
