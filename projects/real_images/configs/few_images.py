# The recipe for own images, on 480 of them, equally many of each class.
_base_ = [
    '../../../configs/qbheat/'
    'qbheat_mf-285m_1xb64-amp-coslr-80e_own-images.py'
]
custom_imports = dict(imports=['qbheat_mm', 'projects.real_images.labels'])

train_dataloader = dict(
    num_workers=0,
    persistent_workers=False,
    dataset=dict(type='FewLabels', with_label=True, count=480, seed=0))
