#!/usr/bin/env bash
# torch.distributed.all_reduce, the smallest and the largest of numbers of which one is nan. Guessed: nan,
# as torch.min and torch.max of all numbers, or at least the same for each rank that has it. Seen on
# 29 November 2026 (torch 2.13.0, where 2.15.0 is alike, CPU, gloo, Python 3.11, 2 ranks): nan if rank 0 has it.
# If rank 1 has it, both get 1, the number of rank 0, so a check for nan by MAX misses it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/program.py" <<'PYTHON'
import sys
import torch
import torch.distributed as dist

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)


def of(operation, bad):
    x = torch.tensor(float("nan") if rank == bad else 1.0)
    dist.all_reduce(x, operation)
    return str(x.item())


operations = dist.ReduceOp.MIN, dist.ReduceOp.MAX
seen = [of(operation, bad) for operation in operations for bad in range(2)]
print(f"torch {torch.__version__}, rank {rank}: {seen}", flush=True)
assert torch.tensor([1.0, float("nan")]).max().isnan()
assert seen == ["nan", "1.0", "nan", "1.0"], "the behaviour has changed"
dist.destroy_process_group()
PYTHON
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" "$folder/program.py" 1 "$folder/meet" &
"$folder/env/bin/python" "$folder/program.py" 0 "$folder/meet"
wait $!
