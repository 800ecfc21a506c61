# MoCo-v2 on your own folder of images, on one GPU, to compare with QB-Heat:
#   --cfg-options train_dataloader.dataset.data_root=FOLDER
_base_ = './mocov2_mf-285m_8xb32-coslr-200e_in1k.py'

# Shorter than the data set, so that images don't meet themselves in the queue.
model = dict(queue_len=4096)

train_dataloader = dict(
    batch_size=256,
    dataset=dict(
        _delete_=True,
        type='NamedImageFolder',
        data_root='data/images',
        with_label=False,
        # Stop at damaged files, unlike for ImageNet.
        pipeline=[
            dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
            *_base_.train_pipeline[1:]
        ]))

auto_scale_lr = dict(base_batch_size=256)
