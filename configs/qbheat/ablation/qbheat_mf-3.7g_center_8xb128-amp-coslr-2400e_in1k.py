# Table "QB-Heat ablation experiments" (a). Its default row is the paper's
# final result, which stands for the longest schedule.
_base_ = '../qbheat_mf-3.7g_8xb128-amp-coslr-100e_in1k.py'

model = dict(position='center')

train_cfg = dict(max_epochs=2400)
