#!/usr/bin/env bash
# torch.from_dlpack of arrays that must not be written to. Guessed: it refuses them, warns as from_numpy
# does, or copies.
# Seen on 29 November 2026 (torch 2.13.0, NumPy 2.4.6, JAX 0.10.2, PyArrow 26.0.1, Python 3.11): the tensor has
# the memory of the array, without a warning, and x.add_(1) changes a read-only NumPy array, all rows of
# numpy.broadcast_to, an Arrow array and a JAX array, which all promise not to change. from_dlpack(..., copy=True)
# copies.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 "jax[cpu]==0.10.2" pyarrow==26.0.1
JAX_PLATFORMS=cpu "$folder/env/bin/python" -W error - <<'PYTHON'
import jax.numpy as jnp
import numpy as np
import pyarrow
import torch

read_only = np.zeros(2)
read_only.flags.writeable = False
arrays = {
    "NumPy": read_only,
    "NumPy, broadcast": np.broadcast_to(np.zeros(1), (2,)),
    "Arrow": pyarrow.array([0.0, 0.0]),
    "JAX": jnp.zeros(2),
}
for array in arrays.values():
    torch.from_dlpack(array)[0].add_(1)
seen = {name: np.asarray(array).tolist() for name, array in arrays.items()}
print("torch", torch.__version__, "after x[0].add_(1):", seen)
expected = {"NumPy": [1, 0], "NumPy, broadcast": [1, 1], "Arrow": [1, 0], "JAX": [1, 0]}
assert seen == expected, "the behaviour has changed"
torch.from_dlpack(read_only, copy=True).add_(1)
assert read_only.tolist() == [1, 0], "the behaviour has changed"
PYTHON
