#!/usr/bin/env bash
# JAXopt, linear_solve.solve_normal_cg. Guessed: it solves complex systems, as solve_cg, solve_gmres and
# solve_bicgstab beside it do, or refuses them. Seen on 29 November 2026 (jaxopt 0.8.5, JAX 0.10.2, Python
# 3.11): real systems are solved; for complex ones the residual is more than 10 times the right-hand side,
# without a word. (The transpose of JAX conjugates nothing, so A^T A stands for A^H A.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet jax==0.10.2 jaxlib==0.10.2 jaxopt==0.8.5 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
from jaxopt import linear_solve

jax.config.update("jax_enable_x64", True)
print("jaxopt", version("jaxopt"), "jax", version("jax"))
random, n = np.random.default_rng(0), 12


def residuals(imaginary):
    """Return the residuals of a well conditioned system, relative to the right-hand side."""
    matrix = random.standard_normal((n, n)) + imaginary * random.standard_normal((n, n)) + 6 * np.eye(n)
    y = random.standard_normal(n) + imaginary * random.standard_normal(n)
    matrix, y = jnp.array(matrix), jnp.array(y)
    found = {}
    for name in ("solve_gmres", "solve_bicgstab", "solve_normal_cg"):
        x = getattr(linear_solve, name)(lambda x: matrix @ x, y, tol=1e-10, maxiter=1000)
        found[name] = float(jnp.linalg.norm(matrix @ x - y) / jnp.linalg.norm(y))
    return found


real, complex_ = residuals(0), residuals(1j)
print("real", real)
print("complex", complex_)
assert max(real.values()) < 1e-6, "the behaviour has changed"
assert complex_.pop("solve_normal_cg") > 10, "the behaviour has changed"
assert max(complex_.values()) < 1e-6, "the behaviour has changed"
PYTHON
