#!/usr/bin/env bash
# Test on a Slurm cluster: srun starts torchrun once on each node.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: tools/slurm_test.sh PARTITION JOB_NAME CONFIG CHECKPOINT [arguments of tools/test.py]

From the environment
  GPUS=8           GPUs in all
  GPUS_PER_NODE=8  GPUs of each node
  CPUS_PER_TASK=5  CPU cores for each GPU
  SRUN_ARGS=""     further arguments of srun
  PORT             port on the first node; by default from the job's number
USAGE
}

if [ $# -lt 4 ]; then
    usage >&2
    exit 2
fi
PARTITION=$1
JOB_NAME=$2
shift 2

source "$(dirname "$0")/launch.sh"
launch_slurm "$PARTITION" "$JOB_NAME" "$TOOLS/dist_test.sh" 2 "$@"
