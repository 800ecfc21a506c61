# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the binary of mmcv's operators depends on, asked of an environment."""
import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from shell import EnvError

# Asked of the environment's own Python, which has torch.
QUERY = """
import glob, importlib.metadata, json, os, platform, sys, sysconfig
import torch
from torch.utils.cpp_extension import CUDA_HOME
gpu = torch.cuda.is_available()
site = os.path.dirname(os.path.dirname(torch.__file__))
dists = [d.metadata['Name'] or '' for d in importlib.metadata.distributions()]
print(json.dumps(dict(
    torch=torch.__version__, cuda=torch.version.cuda, gpu=gpu,
    capability=gpu and '%d%d' % torch.cuda.get_device_capability(),
    nvcc=CUDA_HOME and os.path.join(CUDA_HOME, 'bin', 'nvcc'),
    python='cp%d%d' % sys.version_info[:2], machine=platform.machine(),
    header=os.path.join(sysconfig.get_path('include'), 'Python.h'),
    cxx=os.environ.get('CXX', 'c++'),
    includes=glob.glob(os.path.join(site, 'nvidia', '*', 'include')),
    onedl=any(name.startswith('onedl-') for name in dists))))
"""


def query(python: Path, env: dict) -> dict:
    """Ask an environment what a binary for it depends on.

    Args:
        python (Path): The environment's interpreter.
        env (dict): Environment variables of a build.

    Raises:
        EnvError: torch is missing or broken there.
    """
    result = subprocess.run([str(python), '-c', QUERY], env=env,
                            capture_output=True, text=True)
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ['no message'])[-1]
        raise EnvError(
            f'{python} cannot import torch ({last}), and mmcv is built for '
            'the torch that is there: install torch and torchvision first')
    return json.loads(result.stdout.strip().splitlines()[-1])


def forced_architectures() -> str:
    """The GPUs to build for where none is seen: ``FORCE_CUDA=1``."""
    if os.environ.get('FORCE_CUDA') != '1':
        return ''
    return os.environ.get('TORCH_CUDA_ARCH_LIST') or 'all'


def why_not_cuda(facts: dict) -> str:
    """The reason to build operators for the CPU only, '' if there is none."""
    if not facts['gpu'] and not forced_architectures():
        return 'torch sees no GPU'
    if not facts['cuda']:
        return 'this torch is built for the CPU only'
    if not facts['nvcc'] or not os.path.exists(facts['nvcc']):
        return ('a GPU is here, but no nvcc to build for it (install CUDA '
                f'{facts["cuda"]}\'s toolkit, set CUDA_HOME, and run this '
                'again)')
    text = subprocess.run([facts['nvcc'], '--version'],
                          capture_output=True, text=True).stdout
    release = re.search(r'release (\d+)\.', text)
    if not release or release.group(1) != facts['cuda'].split('.')[0]:
        found = release.group(1) if release else 'unknown'
        return (f'nvcc is of CUDA {found}, torch of CUDA {facts["cuda"]} '
                '(set CUDA_HOME to a fitting toolkit, and run this again)')
    return ''


def toolkit(nvcc: str) -> str:
    """The toolkit of an nvcc, which may be a script that calls another."""
    text = subprocess.run(
        [nvcc, '--dryrun', '-x', 'cu', '-c', os.devnull],
        capture_output=True, text=True).stderr
    top = re.search(r'^#\$ TOP=(.+)$', text, re.M)
    return os.path.normpath(top.group(1) if top else f'{nvcc}/../..')


def key(name: str, version: str, facts: dict, with_cuda: bool) -> str:
    """Name the folder of a wheel by all that its binary depends on."""
    ops = 'cpu'
    if with_cuda:
        built_for = forced_architectures() or facts['capability']
        built_for = re.sub(r'[^0-9A-Za-z.+]+', '-', built_for)
        ops = f'cu{facts["cuda"].replace(".", "")}-sm{built_for}'
    return (f'{name}-{version}-torch{facts["torch"]}-{facts["python"]}-'
            f'{ops}-{facts["machine"]}')


def check_compiler(facts: dict) -> None:
    """Name what is missing for a build before it starts."""
    if not shutil.which(facts['cxx'].split()[0]):
        raise EnvError(
            f'building mmcv needs a C++ compiler, and {facts["cxx"]} is not '
            f'there: {_how_to_get_a_compiler()} or set CXX. Pre-training '
            'and classification need neither: they run on mmcv-lite '
            "(the extra 'pretrain')")
    if not os.path.exists(facts['header']):
        raise EnvError(
            f'building mmcv needs Python\'s headers, and {facts["header"]} '
            'is not there: install them (Debian: python3-dev)')


def _how_to_get_a_compiler() -> str:
    if platform.system() == 'Darwin':
        return 'install one (xcode-select --install)'
    return 'install one (Debian: apt install g++; conda: gxx_linux-64)'
