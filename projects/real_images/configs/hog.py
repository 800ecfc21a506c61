# QB-Heat predicts mmpretrain's HOG, as in MaskFeat, instead of pixels.
_base_ = ['./qbheat.py']

model = dict(
    target_generator=dict(
        type='HOGGenerator', nbins=9, pool=8, gaussian_window=16),
    neck=dict(out_channels=108))  # 9 bins, 3 channels, 2 x 2 cells a patch
