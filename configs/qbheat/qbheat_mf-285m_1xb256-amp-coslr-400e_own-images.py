# Pre-training on a folder of images of your own, flat or nested, without any
# labels, on one GPU:
#   --cfg-options train_dataloader.dataset.data_root=FOLDER
# The schedule is the paper's for the smaller batch. BN sees the images of one
# GPU: accumulating gradients does not make up for a small batch.
_base_ = './qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py'

# Pixels as they are, and not normalized patch by patch as in MAE: of all that
# was tried on some thousands of images in as many epochs it made most
# (docs/evidence.md).
model = dict(head=dict(norm_pix=False))

train_dataloader = dict(
    batch_size=256,
    dataset=dict(
        _delete_=True,
        type='NamedImageFolder',
        data_root='data/images',
        with_label=False,
        # Unlike ImageNet's, damaged files stop the run.
        pipeline=[
            dict(_base_.train_pipeline[0], ignore_empty=False),
            *_base_.train_pipeline[1:]
        ]))

optim_wrapper = dict(optimizer=dict(lr=1.5e-4 * 256 / 256))

train_cfg = dict(max_epochs=400)

auto_scale_lr = dict(base_batch_size=256)
