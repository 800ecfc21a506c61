# Distillation of several maps, to try its settings.
_base_ = ['./qbheat.py']
custom_imports = dict(imports=['qbheat_mm', 'projects.real_images.losses'])

model = dict(
    _delete_=True,
    type='TrialDistillation',
    backbone=_base_.model.backbone,
    data_preprocessor=_base_.model.data_preprocessor,
    target_generator=dict(
        type='EncoderTarget',
        encoder='data/lite0.safetensors',
        folder='work_dirs/teacher'))
