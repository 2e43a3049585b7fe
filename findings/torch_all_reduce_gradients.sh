#!/usr/bin/env bash
# torch.distributed.nn.functional.all_reduce, the gradient for products and extremes. Guessed: right for
# each operation that it takes, or refused. Seen on 29 November 2026 (torch 2.13.0, where 2.15.0 is alike, CPU, gloo,
# Python 3.11, 2 ranks): right for sums. x is 2 on rank 0 and 3 on rank 1, and the loss is the sum of
# the results of both ranks. For the product, 2 x_0 x_1, the gradients are 6 and 4, for the maximum 0
# and 2, for the minimum 2 and 0. Each time both ranks have 1: the operation is applied to gradients.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/program.py" <<'PYTHON'
import sys
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as functional

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)

def of(operation):
    x = torch.tensor(2.0 + rank, requires_grad=True)
    y = functional.all_reduce(x, op=operation)
    y.backward()
    return y.item(), x.grad.item()


operations = dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX, dist.ReduceOp.MIN
seen = [of(operation) for operation in operations]
print(f"torch {torch.__version__}, rank {rank}: {seen}", flush=True)
assert seen[0] == (5, 2)
assert seen[1:] == [(6, 1), (3, 1), (2, 1)], "the behaviour has changed"
dist.destroy_process_group()
PYTHON
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" "$folder/program.py" 1 "$folder/meet" &
"$folder/env/bin/python" "$folder/program.py" 0 "$folder/meet"
wait $!
