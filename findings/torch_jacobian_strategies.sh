#!/usr/bin/env bash
# torch.autograd.functional.jacobian of a complex function. Guessed: the strategy changes the time, and
# not the result: the Jacobian of f(z) = i z is i.
# Seen on 29 November 2026 (torch 2.13.0, NumPy 2.4.6, Python 3.11): with vectorize=True it is -i by
# default ("reverse-mode") and i for strategy="forward-mode"; of z^2 they are each other's conjugates, too.
# Without vectorize it raises RuntimeError. torch.func.jacrev and jacfwd refuse complex inputs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import torch
from torch.autograd.functional import jacobian

z = torch.tensor([1 + 1j], dtype=torch.complex128)
seen = {}
for name, function in {"i z": lambda z: 1j * z, "z^2": torch.square}.items():
    seen[name] = [
        jacobian(function, z, vectorize=True, strategy=strategy).item()
        for strategy in ("reverse-mode", "forward-mode")
    ]
print("torch", torch.__version__, "reverse-mode and forward-mode:", seen)
assert seen == {"i z": [-1j, 1j], "z^2": [2 - 2j, 2 + 2j]}, "the behaviour has changed"
refused = {
    "jacobian": lambda: jacobian(torch.square, z),
    "torch.func.jacrev": lambda: torch.func.jacrev(torch.square)(z),
    "torch.func.jacfwd": lambda: torch.func.jacfwd(torch.square)(z),
}
for name, call in refused.items():
    try:
        call()
    except RuntimeError as error:
        print(name, "refuses:", error)
    else:
        raise AssertionError("the behaviour has changed")
PYTHON
