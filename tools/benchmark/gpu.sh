#!/usr/bin/env bash
# Measure a GPU: tools/benchmark/gpu.sh > gpu.txt
# Steps of pre-training next to MAE ViT-S and the rate of matrix products, with
# peak memory, in float32, float16 and bfloat16, and compiled; the encoder;
# detectors, and training them on a frozen encoder; the input pipeline of one
# CPU thread.
# DEVICE, BATCH_SIZE and REPEATS change the defaults; PYTHON=echo prints the
# commands.
set -eu
source "$(dirname "${BASH_SOURCE[0]}")/../launch.sh"
DEVICE="${DEVICE:-cuda}"
BATCH_SIZE="${BATCH_SIZE:-128}"
REPEATS="${REPEATS:-10}"
CONFIGS="$(dirname "$TOOLS")/configs"
QBHEAT="$CONFIGS/qbheat/qbheat_mf-%s_8xb128-amp-coslr-100e_in1k.py"

measure() {
    local tool="$TOOLS/benchmark/$1"
    shift
    "$PYTHON" "$tool" --repeats "$REPEATS" "$@"
}

for size in 285m 3.7g; do
    for how in fp32 fp16 bf16 "bf16 --compile"; do
        # shellcheck disable=SC2059,SC2086
        measure pretraining.py --device "$DEVICE" \
            --batch-size "$BATCH_SIZE" --config "$(printf "$QBHEAT" $size)" \
            --precision $how
    done
done
measure encoder_speed.py --device "$DEVICE" --batch-size "$BATCH_SIZE"
measure detectors.py --device "$DEVICE"
measure detectors.py --train --device "$DEVICE"
measure input.py
measure input.py --config \
    "$CONFIGS/mobile_former/mf-1.0g_8xb128-tran1-coslr-450e_in1k.py"
