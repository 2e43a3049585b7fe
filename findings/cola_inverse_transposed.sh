#!/usr/bin/env bash
# CoLA, inverses of linear operators by iterations. Guessed: inv(A, GMRES()).T and .H are the transpose and
# the adjoint of the inverse, as with LU(), or an error. Seen on 29 November 2026 (cola-ml 0.0.7, torch
# 2.13.0, Python 3.11): times any vector they are 0, for real and complex A, with GMRES and CG; so is a
# vector times the inverse. Gradients of solutions by CG are right for real A, and wrong by more than
# the gradient itself for complex A.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet cola-ml==0.0.7 torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - 2>"$folder/warnings" <<'PYTHON'
from importlib.metadata import version

import cola
import torch
from cola.linalg import CG, GMRES, LU

print("cola-ml", version("cola-ml"), "torch", torch.__version__)
torch.manual_seed(0)
n = 8


def gradient(matrix, y, solve):
    matrix = matrix.clone().requires_grad_()
    solve(matrix, y).abs().square().sum().backward()
    return matrix.grad


for dtype in (torch.float64, torch.complex128):
    random, y = torch.randn(n, n, dtype=dtype), torch.randn(n, dtype=dtype)
    general, definite = random + 6 * torch.eye(n), random.mH @ random + n * torch.eye(n)
    for method, matrix in ((LU(), general), (GMRES(tol=1e-12), general), (CG(tol=1e-12), definite)):
        operator = cola.ops.Dense(matrix)
        inverse = cola.inv(cola.PSD(operator) if isinstance(method, CG) else operator, method)
        errors = {
            "A^-1 y": (inverse @ y - torch.linalg.solve(matrix, y)),
            "A^-T y": (inverse.T @ y - torch.linalg.solve(matrix.mT, y)),
            "A^-H y": (inverse.H @ y - torch.linalg.solve(matrix.mH, y)),
        }
        errors = {name: each.norm().item() for name, each in errors.items()}
        exact = isinstance(method, LU)
        zero = (inverse.T @ y).abs().max() == 0 and (y @ inverse).abs().max() == 0
        print(dtype, type(method).__name__, errors, "zero:", bool(zero))
        assert errors["A^-1 y"] < 1e-8 and bool(zero) != exact, "the behaviour has changed"
        assert exact == (max(errors.values()) < 1e-8), "the behaviour has changed"
    right = gradient(definite, y, torch.linalg.solve)
    found = gradient(definite, y, lambda a, b: cola.inv(cola.PSD(cola.ops.Dense(a)), CG(tol=1e-12)) @ b)
    wrong = ((found - right).norm() / right.norm()).item()
    print(dtype, "relative error of the gradient:", wrong)
    assert (wrong > 0.5) if dtype.is_complex else (wrong < 1e-8), "the behaviour has changed"
PYTHON
