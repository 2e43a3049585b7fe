#!/usr/bin/env bash
# Tied weights of a module on meta. Guessed: a Parameter that two layers share stays one in Module.to and
# Module.to_empty, as it does in a cast.
# Seen on 29 November 2026 (torch 2.13.0, Python 3.11; 2.15.0 is alike): to("meta"), and to_empty to or from
# meta, make two Parameters of it. A checkpoint that is loaded then makes them equal, and training lets them part. With
# torch.__future__.set_swap_module_params_on_conversion(True) they stay one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import torch


def tied():
    first, last = (torch.nn.Linear(2, 2, bias=False) for _ in range(2))
    last.weight = first.weight
    return torch.nn.Sequential(first, last)


def still_tied(change):
    module = change(tied())
    return module[0].weight is module[1].weight


ways = {
    "to(float64)": lambda module: module.to(torch.float64),
    "to(meta)": lambda module: module.to("meta"),
    "to_empty(cpu)": lambda module: module.to_empty(device="cpu"),
    "to_empty(meta)": lambda module: module.to_empty(device="meta"),
}
seen = {name: still_tied(change) for name, change in ways.items()}
with torch.device("meta"):
    module = tied()
checkpoint = tied().state_dict()
module.to_empty(device="cpu").load_state_dict(checkpoint)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
module(torch.ones(1, 2)).sum().backward()
before = torch.equal(module[0].weight, module[1].weight)
optimizer.step()
after = torch.equal(module[0].weight, module[1].weight)
print("torch", torch.__version__, seen, "equal before a step:", before, "and after:", after)
torch.__future__.set_swap_module_params_on_conversion(True)
swapped = {name: still_tied(change) for name, change in ways.items()}
print("with swapped parameters:", swapped)
assert seen == {
    **{"to(float64)": True, "to(meta)": False, "to_empty(cpu)": True, "to_empty(meta)": False}
}, "the behaviour has changed"
assert (before, after) == (True, False) and all(swapped.values()), "the behaviour has changed"
PYTHON
