# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A study of two arms, for the test that kills it."""
from projects.drawn_world.study import Arm, Probe, Study
from projects.drawn_world.study.report import Question

STUDY = Study(
    (Arm('base', 'random', 'demo/qbheat_mf-demo_random.py'),
     Arm('other', 'QB-Heat', 'demo/qbheat_mf-demo_pretrain.py',
         ('custom_hooks=[]', ), probes=('lin', ))),
    (Probe('lin', 'demo/mf-demo_linear.py', {'top-1': ('accuracy/top1', 1)},
           ('train_cfg.val_interval=1', )),
     Probe('features', 'demo/mf-demo_linear.py', {'k-NN': ('k-NN', 1)},
           tool='study/features.py'),
     Probe('matrices', 'demo/qbheat_mf-demo_pretrain.py',
           {'rank': ('rank', 1)}, ('train_dataloader.dataset.split=val', ),
           tool='study/matrices.py')))

QUESTIONS = (Question('helps', 'Does it help?', 'base', ('other', ),
                      (('lin', 'top-1'), )), )
