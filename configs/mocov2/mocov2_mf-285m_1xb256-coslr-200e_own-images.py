# MoCo-v2 on a folder of images of your own, on one GPU, to be compared with
# QB-Heat on the same images:
#   --cfg-options train_dataloader.dataset.data_root=FOLDER
# The queue should hold fewer images than there are, or an image meets itself
# in it: it is shorter than ImageNet's.
_base_ = './mocov2_mf-285m_8xb32-coslr-200e_in1k.py'

model = dict(queue_len=4096)

train_dataloader = dict(
    batch_size=256,
    dataset=dict(
        _delete_=True,
        type='NamedImageFolder',
        data_root='data/images',
        with_label=False,
        # Unlike ImageNet's, damaged files stop the run.
        pipeline=[
            dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
            *_base_.train_pipeline[1:]
        ]))

auto_scale_lr = dict(base_batch_size=256)
