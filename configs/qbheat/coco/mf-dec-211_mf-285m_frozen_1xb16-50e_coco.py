# One GPU with the batch of 8 GPUs, 16 images, and hence with their learning
# rate. Where 16 do not fit: train_dataloader.batch_size=8 and --auto-scale-lr,
# which makes it 5e-5.
_base_ = './mf-dec-211_mf-285m_frozen_8xb2-50e_coco.py'

train_dataloader = dict(batch_size=16, num_workers=8)
