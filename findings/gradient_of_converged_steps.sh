#!/usr/bin/env bash
# torch's gradient through the steps of conjugate gradients. Guessed: if the steps have found the
# solution, their gradient is that of the solution; after more steps, which divide 0 by 0, it is nan.
# Seen on 29 November 2026 (torch 2.13.0, float64, CPU, Python 3.11), for 3 equations: after 3 steps
# x is exact to the last bits, and the gradient to the matrix is wrong by 0.17. After 10 and 30 steps
# it is exact, and after 60 steps nan.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import math
import torch

A = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]], dtype=torch.float64, requires_grad=True)
y = torch.tensor([1.0, 2, 3], dtype=torch.float64)
(right,) = torch.autograd.grad(torch.linalg.solve(A, y).sum(), A)
solution = torch.linalg.solve(A.detach(), y)


def steps(count):
    x, r = torch.zeros_like(y), y.clone()
    p, squares = r, r @ r
    for _ in range(count):
        q = A @ p
        step = squares / (p @ q)
        x, r = x + step * p, r - step * q
        squares, before = r @ r, squares
        p = r + squares / before * p
    return x


errors = []
for count in (3, 10, 30, 60):
    x = steps(count)
    (found,) = torch.autograd.grad(x.sum(), A)
    x = x.detach()
    errors.append(float((found - right).abs().max()))
    print(f"{count} steps: error of x {float((x - solution).abs().max()):.1g}, of the gradient "
          f"{errors[-1]:.2g}")
    assert count == 60 or torch.allclose(x, solution, atol=1e-14), "the behaviour has changed"
assert errors[0] > 0.1 and max(errors[1:3]) < 1e-12, "the behaviour has changed"
assert math.isnan(errors[3]), "the behaviour has changed"
PYTHON
