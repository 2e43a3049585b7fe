#!/usr/bin/env bash
# torch.distributed on gloo, all_reduce and broadcast of a column of a matrix. Guessed: the column is
# summed, as a transposed matrix is, or there is an error that it is not contiguous. Seen on
# 29 November 2026 (torch 2.13.0, CPU, Python 3.11, 2 ranks): the first numbers in memory are taken
# instead, without a word. Of the column 0, 2, 4, 6 of rank 0 and 0, 4, 8, 12 of rank 1, whose sum is
# 0, 6, 12, 18, rank 0 has 0, 6, 4, 6 and rank 1 has 0, 6, 8, 12; the other column is overwritten.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
cat > "$folder/program.py" <<'PYTHON'
import sys
import torch
import torch.distributed as dist

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)


def matrix():
    return torch.arange(8.0).reshape(4, 2) * (rank + 1)


turned, column, sent = matrix().T, matrix()[:, 0], matrix()[:, 0]
dist.all_reduce(turned)
dist.all_reduce(column)
dist.broadcast(sent, 0)
print(f"rank {rank}: sum {column.tolist()}, broadcast {sent.tolist()}", flush=True)
assert torch.equal(turned, 3 * torch.arange(8.0).reshape(4, 2).T)
assert column.tolist() == ([0, 6, 4, 6], [0, 6, 8, 12])[rank], "the behaviour has changed"
assert sent.tolist() == ([0, 2, 4, 6], [0, 2, 8, 12])[rank], "the behaviour has changed"
dist.destroy_process_group()
PYTHON
"$folder/env/bin/python" "$folder/program.py" 1 "$folder" &
"$folder/env/bin/python" "$folder/program.py" 0 "$folder"
wait $!
