_base_ = 'mmdet::_base_/default_runtime.py'

custom_imports = dict(
    imports=['qbheat_mm', 'qbheat_mm.detection'], allow_failed_imports=False)

# Adapts to small data sets, short runs and CPU-only machines.
runner_type = 'AutoScaleRunner'

default_hooks = dict(
    checkpoint=dict(
        type='SafeCheckpointHook',
        interval=0.1,  # every tenth of the run
        max_keep_ckpts=2,
        save_best='coco/bbox_mAP'),
    # Fail unless the checkpoint provides every tensor.
    checkpoint_match=dict(type='StrictLoadHook'),
    # Compare the classes of the annotations, the dataset and the head.
    check_classes=dict(type='CheckClassesHook'),
    # Validate the same weights in all processes.
    broadcast_buffers=dict(type='BroadcastBuffersHook'),
    # Resume as if the run had not been interrupted.
    random_state=dict(type='RandomStateHook'),
    resume=dict(type='ResumeHook'),
    # Warn about few steps.
    advice=dict(type='RunAdviceHook'),
    duration=dict(type='DurationHook'),
    # End with AP, AP50 and AP by class.
    summary=dict(type='DetectionSummaryHook'),
    stop_on_non_finite_loss=dict(type='StopOnNonFiniteLossHook'))

log_processor = dict(type='ThroughputLogProcessor')

# Exact resuming needs a fixed seed.
randomness = dict(seed=0, deterministic=False)
