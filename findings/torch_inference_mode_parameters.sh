#!/usr/bin/env bash
# Training a model of which one layer was moved, cast or copied in inference mode. Guessed: it learns, or an
# error says that its weight is an inference tensor.
# Seen on 29 November 2026 (torch 2.13.0, Python 3.11; 2.15.0 is alike): backward runs, the other layers learn,
# and the weight of this one has requires_grad=True and no gradient: optimizers skip it without an error. (A
# bias of the layer does get a gradient, and the optimizer then raises. So does backward if the input
# requires a gradient.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import copy

import torch


def learns(first):
    last = torch.nn.Linear(3, 1)
    before = [weight.detach().clone() for weight in (first.weight, last.weight)]
    optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()])
    last(first(torch.ones(1, 2))).sum().backward()
    optimizer.step()
    after = [first.weight, last.weight]
    return tuple(not torch.equal(old, new) for old, new in zip(before, after))


def layer(dtype=None):
    return torch.nn.Linear(2, 3, bias=False, dtype=dtype)


cast, moved = layer(torch.float64), layer()
with torch.inference_mode():
    cast.to(torch.float32)
    moved.to("meta").to_empty(device="cpu")
    copied = copy.deepcopy(layer())
    torch.nn.init.ones_(moved.weight)
seen = {"made": learns(layer()), "cast": learns(cast)}
seen |= {"moved": learns(moved), "copied": learns(copied)}
print("torch", torch.__version__, "the first layer and the second learn:", seen)
assert seen.pop("made") == (True, True), "the behaviour has changed"
assert set(seen.values()) == {(False, True)}, "the behaviour has changed"
assert cast.weight.requires_grad and cast.weight.grad is None, "the behaviour has changed"
PYTHON
