# Fine-tunes MF-Dec and its encoder from the checkpoint of the frozen run.
# Children set what mf-dec.py asks for.
_base_ = './mf-dec.py'

# As in DETR, BN statistics stay fixed: two images per GPU are too few.
model = dict(
    backbone=dict(frozen_stages=-1, norm_eval=True, init_cfg=None))
