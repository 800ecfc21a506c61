# RandAug(9, 0.5), as timm's "rand-m9-mstd0.5-inc1", and random erasing.
bgr_mean = [103.53, 116.28, 123.675]
bgr_std = [57.375, 57.12, 58.395]

rand_augment = dict(
    type='RandAugment',
    _scope_='qbheat_mm',
    policies='timm_increasing',
    num_policies=2,
    total_level=10,
    magnitude_level=9,
    magnitude_std=0.5,
    hparams=dict(
        pad_val=[round(x) for x in bgr_mean], interpolation='bicubic'))
random_erasing = dict(
    type='RandomErasing',
    erase_prob=0.25,
    mode='rand',
    min_area_ratio=0.02,
    max_area_ratio=1 / 3,
    fill_color=bgr_mean,
    fill_std=bgr_std)
