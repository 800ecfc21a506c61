# MF-Dec and its encoder, all trained, from the checkpoint of the frozen run.
# Children set what those of mf-dec.py set.
_base_ = './mf-dec.py'

# With two images a GPU, BN of the encoder keeps its statistics, as in DETR.
model = dict(
    backbone=dict(frozen_stages=-1, norm_eval=True, init_cfg=None))
