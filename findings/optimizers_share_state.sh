#!/usr/bin/env bash
# Loading the state of an optimizer into another one. Guessed: load_state_dict copies the numbers, as that of
# a module does.
# Seen on 29 November 2026 (torch 2.13.0, Python 3.11; 2.15.0 is alike): it keeps the tensors of the state
# dict, if type and device fit. Two optimizers then have one momentum: a step of the second changes that of
# the first, and a state dict that was kept for later changes with each step after it was loaded.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import copy

import torch

torch.manual_seed(0)
layer = torch.nn.Linear(2, 2)
twin = copy.deepcopy(layer)
first, second = (
    torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9) for module in (layer, twin)
)
layer(torch.ones(1, 2)).sum().backward()
first.step()
second.load_state_dict(first.state_dict())
momentum = first.state[layer.weight]["momentum_buffer"].clone()
twin(torch.full((1, 2), 5.0)).sum().backward()
second.step()
changed = first.state[layer.weight]["momentum_buffer"]
print("torch", torch.__version__, "momentum of the first:", momentum[0, 0].item(), changed[0, 0].item())
assert (momentum[0, 0].item(), round(changed[0, 0].item(), 3)) == (1, 5.9), "the behaviour has changed"
twin.load_state_dict(layer.state_dict())
with torch.no_grad():
    twin.weight.zero_()
assert layer.weight.abs().sum() > 0, "the behaviour has changed"  # a module copies
PYTHON
