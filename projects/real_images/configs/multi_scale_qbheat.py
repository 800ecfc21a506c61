# Distillation of several maps, with QB-Heat's loss of pixels beside it.
_base_ = ['./qbheat.py']
custom_imports = dict(imports=['qbheat_mm', 'projects.real_images.losses'])

qbheat = dict(_base_.model)
network = qbheat.pop('backbone')
preprocessor = qbheat.pop('data_preprocessor')
model = dict(
    _delete_=True,
    type='DistillationWithQBHeat',
    backbone=network,
    qbheat=qbheat,
    data_preprocessor=preprocessor,
    target_generator=dict(
        type='EncoderTarget',
        encoder='data/lite0.safetensors',
        folder='work_dirs/teacher'))
