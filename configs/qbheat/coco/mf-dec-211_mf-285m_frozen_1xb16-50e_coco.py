# One GPU with the batch size (16) and learning rate of 8 GPUs. If 16 images
# don't fit, set train_dataloader.batch_size=8 and add --auto-scale-lr.
_base_ = './mf-dec-211_mf-285m_frozen_8xb2-50e_coco.py'

train_dataloader = dict(batch_size=16, num_workers=8)
