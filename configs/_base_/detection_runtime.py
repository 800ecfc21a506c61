_base_ = 'mmdet::_base_/default_runtime.py'

custom_imports = dict(
    imports=['qbheat_mm', 'qbheat_mm.detection'], allow_failed_imports=False)

# Few images, short runs and machines without a GPU are fitted to.
runner_type = 'AutoScaleRunner'

default_hooks = dict(
    checkpoint=dict(
        type='SafeCheckpointHook',
        interval=0.1,  # every tenth of the run
        max_keep_ckpts=2,
        save_best='coco/bbox_mAP'),
    # A checkpoint to load, resume or test fills the whole model.
    checkpoint_match=dict(type='StrictLoadHook'),
    # The annotation files hold the classes of the data set and the head.
    check_classes=dict(type='CheckClassesHook'),
    # Several processes validate the network whose checkpoint is written.
    broadcast_buffers=dict(type='BroadcastBuffersHook'),
    # A resumed run goes on as if it had not been interrupted.
    random_state=dict(type='RandomStateHook'),
    resume=dict(type='ResumeHook'),
    # Files of another run, and how long the run will take.
    advice=dict(type='RunAdviceHook'),
    stop_on_non_finite_loss=dict(type='StopOnNonFiniteLossHook'))

log_processor = dict(type='ThroughputLogProcessor')

# Exact resuming needs the order of the data, which hangs on the seed.
randomness = dict(seed=0, deterministic=False)
