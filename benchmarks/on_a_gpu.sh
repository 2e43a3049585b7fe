#!/usr/bin/env bash
# All that is to be seen on a machine with GPUs, in one call of some 10 minutes, most telling first:
#
#     benchmarks/on_a_gpu.sh OUTPUT_FOLDER            # with the torch that the machine has
#     DEVICE=cpu benchmarks/on_a_gpu.sh OUTPUT_FOLDER # a rehearsal: each step with its stand-in
#
# A step that fails or takes longer than its limit does not stop the others. OUTPUT_FOLDER/summary.txt
# says how each ended, and a file for each step what it printed. The machine needs torch, pytest,
# hypothesis and sybil; nothing is installed, and the sources of this tree are used.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:?"usage: benchmarks/on_a_gpu.sh OUTPUT_FOLDER"}
mkdir -p "$out"
device=${DEVICE:-cuda}
PYTHONPATH=$(printf '%s:' packages/*/src)
export PYTHONPATH
unset failed

step() { # NAME SECONDS COMMAND...: run it, and write how it ended
    local name=$1 limit=$2 start=$SECONDS status=0
    shift 2
    timeout --kill-after=10 "$limit" "$@" >"$out/$name.txt" 2>&1 || status=$?
    printf '%-10s status %3d after %4d s: %s\n' "$name" "$status" $((SECONDS - start)) \
        "$(grep -v '^\s*$' "$out/$name.txt" | tail -n 1 | cut -c 1-150)" | tee -a "$out/summary.txt"
    [ "$status" -eq 0 ] || failed=yes
}

if [ "$device" = cuda ]; then
    ranks=$(python -c 'import torch; print(torch.cuda.device_count())')
    tests=(-m "gpu and not multigpu") # ranks of NCCL need a GPU each
    sanitizer=(compute-sanitizer --error-exitcode 9)
    command -v compute-sanitizer >/dev/null || sanitizer=()
else
    ranks=2
    tests=(packages/linops-multigpu/tests/_execution) # on simulated devices, whose checker finds races
    sanitizer=()
fi

: >"$out/summary.txt"
step versions 60 python -c 'import sys, torch; print(sys.version.split()[0], torch.__version__,
    torch.version.cuda, [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())])'
step compile 120 "${sanitizer[@]}" python benchmarks/compiled_normal.py "$device"
step tests 200 python -m pytest -q "${tests[@]}"
step ranks 120 python -m torch.distributed.run --standalone --nproc-per-node="$ranks" \
    packages/linops-distributed/tests/programs/device_ranks.py
step nufft 150 python benchmarks/bench_nufft_gpu.py "$device"
step bench 150 python benchmarks/bench_gpu.py
[ -z "${failed-}" ]
