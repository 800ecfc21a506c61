# The whole of encoder and `tran-k` decoder is trained. Dropout: Table
# "End-to-end fine-tuning setting".
_base_ = './probe_tran.py'

model = dict(backbone=dict(frozen_stages=-1), neck=dict(drop_rate=0.2))
