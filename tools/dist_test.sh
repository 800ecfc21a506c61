#!/usr/bin/env bash
# Test with several processes on one or more machines, on GPUs or CPUs.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: tools/dist_test.sh CONFIG CHECKPOINT PROCESSES [arguments of tools/test.py]

  CONFIG      configuration file
  CHECKPOINT  checkpoint file
  PROCESSES   processes on this machine, one per GPU; any number without a GPU

Several machines: run it on each, with these in the environment
  NNODES=2  NODE_RANK=0 or 1  MASTER_ADDR=first-machine  PORT=29500
One machine: PORT is chosen freely unless set. PYTHON names the interpreter.
USAGE
}

if [ $# -lt 3 ]; then
    usage >&2
    exit 2
fi
CONFIG=$1
CHECKPOINT=$2
PROCESSES=$3
shift 3

source "$(dirname "$0")/launch.sh"
launch "$PROCESSES" "$TOOLS/test.py" "$CONFIG" "$CHECKPOINT" "$@"
