# Trains the encoder and a `tran-k` decoder. Dropout: Table 12.
_base_ = './probe_tran.py'

model = dict(backbone=dict(frozen_stages=-1), neck=dict(drop_rate=0.2))
