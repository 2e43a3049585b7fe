#!/usr/bin/env bash
# DTensor on a mesh whose ranks descend, such as DeviceMesh("cpu", [1, 0]). Guessed: what is distributed
# comes back by full_tensor(), for each length, because a mesh may be any array of ranks. Seen on
# 29 November 2026 (torch 2.13.0, where 2.15.0 is alike, CPU, gloo, Python 3.11, 2 ranks): it does for 4 elements.
# Of 0, 1, 2, 3, 4 it makes 0, 1, 0, 3, 4 on both ranks, and a redistributed matrix is wrong as well,
# without a word: the process group counts ranks upwards, and the lengths of shards follow the mesh.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/program.py" <<'PYTHON'
import sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)


def comes_back(ranks, x):
    return distribute_tensor(x, DeviceMesh("cpu", ranks), [Shard(0)]).full_tensor()


def turned(ranks, x):
    mesh = DeviceMesh("cpu", ranks)
    return distribute_tensor(x, mesh, [Shard(0)]).redistribute(mesh, [Shard(1)]).full_tensor()


four, five, matrix = torch.arange(4.0), torch.arange(5.0), torch.arange(25.0).reshape(5, 5)
assert torch.equal(comes_back([0, 1], five), five) and torch.equal(turned([0, 1], matrix), matrix)
assert torch.equal(comes_back([1, 0], four), four)
result = comes_back([1, 0], five).tolist()
print(f"torch {torch.__version__}, rank {rank}: {result}", flush=True)
assert result == [0, 1, 0, 3, 4], "the behaviour has changed"
assert not torch.equal(turned([1, 0], matrix), matrix), "the behaviour has changed"
dist.destroy_process_group()
PYTHON
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" "$folder/program.py" 1 "$folder/meet" &
"$folder/env/bin/python" "$folder/program.py" 0 "$folder/meet"
wait $!
