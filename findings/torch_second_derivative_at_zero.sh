#!/usr/bin/env bash
# Second derivatives of |x|^2 in torch and JAX, at x = 0, where solvers start. Guessed: 2 for each way
# to write it, since each has the right value and the right gradient.
# Seen on 29 November 2026 (torch 2.13.0, JAX 0.10.2, NumPy 2.4.6, Python 3.11): torch has 0 for
# x.abs().square() and nan for torch.linalg.vector_norm(x) ** 2, real and complex; 2 for (x.conj() * x)
# and torch.vdot. JAX has 2 for jnp.abs(x) ** 2 and nan for the norm.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 jax==0.10.2 jaxlib==0.10.2
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import math

import jax
import jax.numpy as jnp
import torch

WAYS = {
    "abs().square()": lambda x: x.abs().square().sum(),
    "vector_norm(x) ** 2": lambda x: torch.linalg.vector_norm(x) ** 2,
    "(x.conj() * x).real": lambda x: (x.conj() * x).real.sum(),
    "vdot(x, x).real": lambda x: torch.vdot(x, x).real,
}


def second(function, at, dtype):
    x = torch.full((1,), at, dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(function(x), x, create_graph=True)
    assert slope.item() == 2 * at
    return torch.autograd.grad(slope, x, torch.ones_like(x))[0].real.item()


for dtype in (torch.float64, torch.complex128):
    at_one = {name: second(function, 1.0, dtype) for name, function in WAYS.items()}
    at_zero = {name: second(function, 0.0, dtype) for name, function in WAYS.items()}
    print("torch", torch.__version__, dtype, "at 1:", at_one, "at 0:", at_zero)
    assert all(abs(found - 2) < 1e-12 for found in at_one.values())
    found = list(at_zero.values())
    assert found[0] == 0 and math.isnan(found[1]) and found[2:] == [2, 2], "the behaviour has changed"
of_abs = jax.hessian(lambda x: (jnp.abs(x) ** 2).sum())(jnp.zeros(1)).item()
of_norm = jax.hessian(lambda x: jnp.linalg.norm(x) ** 2)(jnp.zeros(1)).item()
print("JAX", jax.__version__, "abs:", of_abs, "norm:", of_norm)
assert of_abs == 2 and math.isnan(of_norm), "the behaviour has changed"
PYTHON
