# The images that classify.py describes.
_base_ = [
    '../../../configs/qbheat/benchmarks/'
    'mf-285m_1xb256-linear-coslr-90e_own-folders.py', './views.py'
]

# Numbers of labels, in addition to all.
label_counts = (120, 30)
tuning = False  # see classes_tuning.py
# Of the learned probes: steps with all labels, half of them with few, and
# learning rates.
steps = 800
rates = {'lin': 1e-2, 'tran-1': 1e-3}

train_dataloader = dict(batch_size=64, num_workers=0, persistent_workers=False)
val_dataloader = dict(
    batch_size=64, num_workers=0, persistent_workers=False,
    dataset=dict(data_prefix='test', pipeline=_base_.whole))
