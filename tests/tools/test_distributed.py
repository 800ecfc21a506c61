# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The shell scripts, with two processes on the CPU."""
import os
import re

import pytest

from qbheat_mm.trained.safe_load import safe_load


def test_two_processes_pre_train(tmp_path, script, pretraining_config):
    output = script('dist_train.sh', pretraining_config, 2, '--work-dir',
                    tmp_path)
    # Eight images in batches of two in each process.
    assert re.search(r'Epoch\(train\) +\[1\]\[2/2\]', output), output
    assert not re.search('Warning|NUM_THREADS', output), output
    state = safe_load(str(tmp_path / 'epoch_1.pth'))['state_dict']
    assert {name.split('.')[0] for name in state} >= {
        'backbone', 'predictor', 'neck'}


@pytest.mark.parametrize('name', [
    'dist_train.sh', 'dist_test.sh', 'slurm_train.sh', 'slurm_test.sh'
])
def test_missing_arguments_print_the_usage(script, name):
    assert f'Usage: tools/{name}' in script(name, 'CONFIG', ok=False)


def test_dist_train_passes_on_where_the_machines_are(script):
    command = script('dist_train.sh', 'a.py', 4, '--amp', PYTHON='echo',
                     NNODES='2', NODE_RANK='1', MASTER_ADDR='host', PORT='77')
    assert ('-m torch.distributed.run --nproc_per_node=4 --nnodes=2 '
            '--node_rank=1 --master_addr=host --master_port=77') in command
    assert command.rstrip().endswith(
        'train.py a.py --amp --launcher pytorch')


def test_one_machine_takes_a_free_port(script):
    command = script('dist_test.sh', 'a.py', 'a.pth', 2, PYTHON='echo')
    assert '--nproc_per_node=2 --standalone' in command
    assert command.rstrip().endswith('test.py a.py a.pth --launcher pytorch')


@pytest.mark.parametrize('name,files', [('slurm_train.sh', ['a.py']),
                                        ('slurm_test.sh', ['a.py', 'a.pth'])])
def test_slurm_starts_torchrun_once_a_node(tmp_path, script, name, files):
    # A stand-in for srun: shows its arguments, then runs the command as the
    # second of two nodes.
    (tmp_path / 'srun').write_text(
        '#!/usr/bin/env bash\necho srun "$@"\n'
        'while [ "$1" != bash ]; do shift; done\nexec "$@"\n')
    (tmp_path / 'scontrol').write_text('#!/usr/bin/env bash\necho first\n')
    for file in tmp_path.iterdir():
        file.chmod(0o755)
    output = script(name, 'gpu', 'job', *files, '--work-dir', 'w',
                    PATH=f'{tmp_path}:{os.environ["PATH"]}', PYTHON='echo',
                    GPUS='16',
                    SLURM_NODEID='1', SLURM_JOB_NODELIST='first,second',
                    SLURM_JOB_ID='40123')
    assert ('srun --partition=gpu --job-name=job --nodes=2 '
            '--ntasks-per-node=1 --gres=gpu:8 --cpus-per-task=40') in output
    assert ('--nproc_per_node=8 --nnodes=2 --node_rank=1 --master_addr=first '
            '--master_port=20123') in output
    assert output.rstrip().endswith(
        f'{" ".join(files)} --work-dir w --launcher pytorch')


def test_slurm_refuses_gpus_that_do_not_fill_the_nodes(script):
    assert 'GPUS=12' in script('slurm_train.sh', 'gpu', 'job', 'a.py',
                               ok=False, GPUS='12')
