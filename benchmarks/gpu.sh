#!/usr/bin/env bash
# Measure a GPU: benchmarks/gpu.sh > gpu.txt
# Takes about 12 minutes and ends in the table of docs/performance.md; see
# benchmarks/gpu.py. DEVICE, BATCH_SIZE (one or more) and REPEATS change the defaults;
# more arguments go to gpu.py.
set -eu
source "$(dirname "${BASH_SOURCE[0]}")/../tools/launch.sh"
exec "$PYTHON" "$(dirname "$TOOLS")/benchmarks/gpu.py" --device "${DEVICE:-cuda}" \
    --batch-size ${BATCH_SIZE:-256 512 1024} --repeats "${REPEATS:-8}" "$@"
