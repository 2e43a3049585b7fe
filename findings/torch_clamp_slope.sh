#!/usr/bin/env bash
# torch.clamp, the derivative at its limit. Guessed: 1 in every release, as the documentation of no
# release says otherwise. Seen on 28 November 2026, CPU, Python 3.11:
#   torch 2.13.0: clamp(min=0) 1.0, clamp(0, 2) 1.0, relu 0.0, maximum 0.5
#   torch 2.14.1: clamp(min=0) 0.0, clamp(0, 2) 0.0, relu 0.0, maximum 0.5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 2.13.0 2.14.1; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/python" -m pip install --quiet "torch==$version" "numpy==2.4.6"
    "$folder/$version/bin/python" - "$version" <<'PYTHON'
import sys
import torch

functions = {
    "clamp(min=0)": lambda x: x.clamp(min=0),
    "clamp(0, 2)": lambda x: x.clamp(0, 2),
    "relu": torch.relu,
    "maximum": lambda x: torch.maximum(x, torch.zeros(1)),
}
seen = []
for function in functions.values():
    x = torch.zeros(1, requires_grad=True)
    function(x).backward()
    seen.append(x.grad.item())
print(torch.__version__, dict(zip(functions, seen)))
of_clamp = {"2.13.0": 1.0, "2.14.1": 0.0}[sys.argv[1]]
assert seen == [of_clamp, of_clamp, 0.0, 0.5], "the behaviour has changed"
PYTHON
done
