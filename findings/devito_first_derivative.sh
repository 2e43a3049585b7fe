#!/usr/bin/env bash
# Devito, the first derivative f.dx, and inner(f, f) of complex functions. Guessed: with
# space_order=2, dx is the central difference of second order, as dx2 is; inner conjugates one of both.
# Seen on 29 November 2026 (Devito 4.8.23, NumPy 2.4.3, gcc 12, Python 3.11): with space_order=2, dx is
# the forward difference, of first order and half a cell to the right; dxc is the central one. With
# space_order=4, dx is central. inner conjugates nothing: nine times i gives -9; norm gives 3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.3 devito==4.8.23
DEVITO_LOGGING=ERROR DEVITO_LANGUAGE=C OMP_NUM_THREADS=1 "$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from devito import Eq, Function, Grid, Operator, inner, norm

grid = Grid((9,), extent=(8.0,))


def derivative(order, name):
    f, g = (Function(name=name, grid=grid, space_order=order) for name in "fg")
    f.data[:] = np.arange(9.0) ** 2
    Operator(Eq(g, getattr(f, name)))()
    return float(g.data[4])


found = {name: derivative(*name) for name in [(1, "dx"), (2, "dx"), (2, "dxc"), (4, "dx")]}
z = Function(name="z", grid=grid, dtype=np.complex64)
z.data[:] = 1j
products = complex(inner(z, z)), float(norm(z))
print("devito", version("devito"), "x^2 at 4, whose derivative is 8:", found, products)
assert [round(value, 3) for value in found.values()] == [9, 9, 8, 8], "the behaviour has changed"
assert products == (-9, 3), "the behaviour has changed"
PYTHON
