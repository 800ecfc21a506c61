# Shared by pre-training, probing and classification.
_base_ = 'mmpretrain::_base_/default_runtime.py'

custom_imports = dict(imports=['qbheat_mm'], allow_failed_imports=False)

# Adapts to small data sets, short runs and CPU-only machines.
runner_type = 'AutoScaleRunner'

default_hooks = dict(
    logger=dict(interval=50),
    # Every tenth of the run.
    checkpoint=dict(type='SafeCheckpointHook', interval=0.1, max_keep_ckpts=2),
    # Fail unless the checkpoint provides every tensor.
    checkpoint_match=dict(type='StrictLoadHook'),
    # Validate the same weights in all processes.
    broadcast_buffers=dict(type='BroadcastBuffersHook'),
    # Resume as if the run had not been interrupted.
    random_state=dict(type='RandomStateHook'),
    resume=dict(type='ResumeHook'),
    # Write encoder.safetensors with each checkpoint.
    export_encoder=dict(type='ExportEncoderHook'),
    # Warn about few images or steps.
    advice=dict(type='RunAdviceHook'),
    duration=dict(type='DurationHook'),
    # Encode the training images with the teacher of `teacher=FILE`.
    teacher=dict(type='TeacherHook'),
    stop_on_non_finite_loss=dict(type='StopOnNonFiniteLossHook'))

log_processor = dict(type='ThroughputLogProcessor', window_size=50)

randomness = dict(seed=0, deterministic=False)
