# Sourced by the other scripts: start a Python tool with torchrun.
TOOLS="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# The interpreter: PYTHON, that of an active environment, or the project's.
if [ -z "${PYTHON:-}" ]; then
    PYTHON=python
    if [ -z "${VIRTUAL_ENV:-}${CONDA_PREFIX:-}" ] &&
            [ -x "$(dirname "$TOOLS")/.venv/bin/python" ]; then
        PYTHON="$(dirname "$TOOLS")/.venv/bin/python"
    fi
fi
export PYTHONPATH="$(dirname "$TOOLS")${PYTHONPATH:+:$PYTHONPATH}"

# launch PROCESSES SCRIPT [arguments]
launch() {
    local processes=$1
    shift
    # What torchrun and mmengine would set, with a warning each.
    export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
    export MKL_NUM_THREADS="${MKL_NUM_THREADS:-1}"
    local place
    if [ "${NNODES:-1}" -gt 1 ] || [ -n "${PORT:-}" ]; then
        place=(--nnodes="${NNODES:-1}" --node_rank="${NODE_RANK:-0}"
               --master_addr="${MASTER_ADDR:-127.0.0.1}"
               --master_port="${PORT:-29500}")
    else
        # A free port, so that two runs on one machine do not collide.
        place=(--standalone)
    fi
    exec "$PYTHON" -m torch.distributed.run --nproc_per_node="$processes" \
        "${place[@]}" "$@" --launcher pytorch
}

# launch_slurm PARTITION JOB_NAME SCRIPT FILES FILE... [arguments]
# FILES is the number of files that the script takes; the number of
# processes comes after them.
launch_slurm() {
    local partition=$1 name=$2 script=$3 count=$4
    shift 4
    local files=("${@:1:count}")
    shift "$count"
    local gpus=${GPUS:-8} per_node=${GPUS_PER_NODE:-8}
    if [ "$gpus" -lt "$per_node" ]; then
        per_node=$gpus
    fi
    if [ $((gpus % per_node)) -ne 0 ]; then
        echo "error: GPUS=$gpus is not a multiple of GPUS_PER_NODE=$per_node" >&2
        exit 2
    fi
    export NNODES=$((gpus / per_node)) PYTHON
    # The node's number, the first node's name and the job's number, which
    # keeps the ports of two jobs apart, are known inside the job.
    # shellcheck disable=SC2016,SC2086
    exec srun --partition="$partition" --job-name="$name" \
        --nodes="$NNODES" --ntasks-per-node=1 --gres=gpu:"$per_node" \
        --cpus-per-task=$((per_node * ${CPUS_PER_TASK:-5})) \
        --kill-on-bad-exit=1 ${SRUN_ARGS:-} \
        bash -c 'export NODE_RANK=$SLURM_NODEID
            MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" |
                head -n 1)
            export MASTER_ADDR
            export PORT=${PORT:-$((20000 + SLURM_JOB_ID % 20000))}
            exec "$@"' node "$script" "${files[@]}" "$per_node" "$@"
}
