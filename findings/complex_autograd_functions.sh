#!/usr/bin/env bash
# Products with complex matrices in linear_operator (of GPyTorch) and torchsparsegradutils, which have
# backward functions of their own. Guessed: gradients are those of torch's product, or complex
# matrices are refused. Seen on 29 November 2026 (linear_operator 0.6.1, torchsparsegradutils 0.2.7,
# torch 2.13.0, Python 3.11): values are right, gradients are without the conjugate, without a word,
# to the matrix and to the vector: those of A x = i x have the other sign. So has the vector's gradient
# of a sparse triangular solve.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 linear-operator==0.6.1 \
    torchsparsegradutils==0.2.7
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import torch
from linear_operator import to_linear_operator
from torchsparsegradutils import sparse_mm, sparse_triangular_solve

print(*(f"{name} {version(name)}" for name in ("linear-operator", "torchsparsegradutils")))
A = torch.tensor([[1j, 0], [0, 1j]], dtype=torch.complex128)
b = torch.full((2, 1), 1j, dtype=torch.complex128)


def seen(product, matrix):
    """Return the value, and the gradients of the sum of its real parts."""
    matrix, x = matrix.detach().requires_grad_(), b.clone().requires_grad_()
    y = product(matrix, x)
    y.real.sum().backward()
    gradient = matrix.grad.to_dense() if matrix.grad.layout != torch.strided else matrix.grad
    return y.detach()[0].item(), gradient[0, 0].item(), x.grad[0].item()


right = seen(torch.matmul, A)
found = {
    "linear_operator": seen(lambda A, x: to_linear_operator(A) @ x, A),
    "sparse_mm": seen(sparse_mm, A.to_sparse()),
}
solved = seen(lambda A, x: torch.linalg.solve(A, x), A)
sparse = seen(lambda A, x: sparse_triangular_solve(A, x, upper=False), A.to_sparse_csr())
print("product: torch", right, found)
print("solve: torch", solved, "sparse_triangular_solve", sparse)
assert right == (-1, -1j, -1j)
for each in found.values():
    assert each == (-1, 1j, 1j), "the behaviour has changed"
assert abs(solved[0] - sparse[0]) < 1e-12
assert abs(solved[2] + sparse[2]) < 1e-12, "the behaviour has changed"
PYTHON
