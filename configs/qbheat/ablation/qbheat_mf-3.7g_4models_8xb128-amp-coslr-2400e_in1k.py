# Table 2b. The paper doesn't state the
# epochs; the default row is its final result, so we take the longest schedule.
_base_ = '../qbheat_mf-3.7g_8xb128-amp-coslr-100e_in1k.py'

model = dict(num_models=4)

train_cfg = dict(max_epochs=2400)
