#!/usr/bin/env bash
# torch.distributed, collectives of the imaginary part of a conjugate, z.conj().imag, which torch keeps
# as the imaginary part of z with a mark for the sign. Guessed: it is summed as a copy of it is, or
# there is an error, as for z.conj(). Seen on 29 November 2026 (torch 2.13.0, where 2.15.0 is alike, CPU, gloo,
# Python 3.11, 2 ranks): all_reduce, reduce, broadcast and recv return without an error and leave the
# tensor as it was. -2 of rank 0 and -4 of rank 1 stay -2 and -4; copies of them are summed to -6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/program.py" <<'PYTHON'
import sys
import torch
import torch.distributed as dist

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)


def part():
    return torch.tensor((1 + 2j) * (rank + 1)).conj().imag


copied, summed, reduced, sent, received = part().clone(), part(), part(), part(), part()
dist.all_reduce(copied)
dist.all_reduce(summed)
dist.reduce(reduced, 0)
dist.broadcast(sent, 0)
dist.recv(received, 0) if rank else dist.send(part(), 1)
seen = [x.item() for x in (summed, reduced, sent, received)]
print(f"torch {torch.__version__}, rank {rank}: a copy {copied.item()}, others {seen}", flush=True)
assert copied.item() == -6
assert seen == [(-2, -4)[rank]] * 4, "the behaviour has changed"
dist.destroy_process_group()
PYTHON
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" "$folder/program.py" 1 "$folder/meet" &
"$folder/env/bin/python" "$folder/program.py" 0 "$folder/meet"
wait $!
