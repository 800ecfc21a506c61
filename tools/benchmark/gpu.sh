#!/usr/bin/env bash
# Measure a GPU: tools/benchmark/gpu.sh > gpu.txt
# Takes at most 8 minutes and ends in the table of docs/performance.md; see
# tools/benchmark/gpu.py. DEVICE, BATCH_SIZE and REPEATS change the defaults;
# more arguments go to gpu.py.
set -eu
source "$(dirname "${BASH_SOURCE[0]}")/../launch.sh"
exec "$PYTHON" "$TOOLS/benchmark/gpu.py" --device "${DEVICE:-cuda}" \
    --batch-size "${BATCH_SIZE:-256}" --repeats "${REPEATS:-8}" "$@"
