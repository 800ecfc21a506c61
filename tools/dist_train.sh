#!/usr/bin/env bash
# Train with several processes on one or more machines, on GPUs or CPUs.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: tools/dist_train.sh CONFIG PROCESSES [arguments of tools/train.py]

  CONFIG     configuration file
  PROCESSES  processes on this machine, one per GPU; any number without a GPU

Several machines: run it on each, with these in the environment
  NNODES=2  NODE_RANK=0 or 1  MASTER_ADDR=first-machine  PORT=29500
One machine: PORT is chosen freely unless set. PYTHON names the interpreter.
USAGE
}

if [ $# -lt 2 ]; then
    usage >&2
    exit 2
fi
CONFIG=$1
PROCESSES=$2
shift 2

source "$(dirname "$0")/launch.sh"
launch "$PROCESSES" "$TOOLS/train.py" "$CONFIG" "$@"
