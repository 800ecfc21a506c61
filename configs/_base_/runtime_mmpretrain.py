# What every run of mmpretrain shares: pre-training, probing, classification.
_base_ = 'mmpretrain::_base_/default_runtime.py'

custom_imports = dict(imports=['qbheat_mm'], allow_failed_imports=False)

# Few images, short runs and machines without a GPU are fitted to.
runner_type = 'AutoScaleRunner'

default_hooks = dict(
    logger=dict(interval=50),
    # Every tenth of the run.
    checkpoint=dict(type='SafeCheckpointHook', interval=0.1, max_keep_ckpts=2),
    # A checkpoint to load, resume or test fills the whole model.
    checkpoint_match=dict(type='StrictLoadHook'),
    # Several processes validate the network whose checkpoint is written.
    broadcast_buffers=dict(type='BroadcastBuffersHook'),
    # A resumed run goes on as if it had not been interrupted.
    random_state=dict(type='RandomStateHook'),
    resume=dict(type='ResumeHook'),
    # With each checkpoint, a trained encoder: encoder.safetensors.
    export_encoder=dict(type='ExportEncoderHook'),
    # Few images, files of another run, and how long the run will take.
    advice=dict(type='RunAdviceHook'),
    stop_on_non_finite_loss=dict(type='StopOnNonFiniteLossHook'))

log_processor = dict(type='ThroughputLogProcessor', window_size=50)

randomness = dict(seed=0, deterministic=False)
