#!/usr/bin/env bash
# nitransforms, two ways to "compose" transforms, A @ B and A + B. Guessed: both apply B first, and neither
# changes A.
# Seen on 29 November 2026 (nitransforms 25.1.0, NumPy 2.4.6, Python 3.11): A @ B maps x to A(B(x)), A + B
# and TransformChain([A, B]) map it to B(A(x)). And if A is a chain, A + B appends B to A itself, so that A
# maps otherwise from then on.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 nibabel==5.4.2 \
    nitransforms==25.1.0
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from nitransforms.linear import Affine
from nitransforms.manip import TransformChain

print("nitransforms", version("nitransforms"))
shift = np.eye(4)
shift[0, 3] = 10  # x to x + 10
turn = np.eye(4)
turn[:2, :2] = [[0, -1], [1, 0]]  # x to y, y to -x
A, B = Affine(shift), Affine(turn)
point = np.array([[1.0, 0, 0]])
B_first = (shift @ turn @ [1, 0, 0, 1])[:3]
A_first = (turn @ shift @ [1, 0, 0, 1])[:3]
seen = {
    "A @ B": (A @ B).map(point)[0],
    "A + B": (A + B).map(point)[0],
    "TransformChain([A, B])": TransformChain([A, B]).map(point)[0],
}
for name, found in seen.items():
    print(f"{name}: {point[0]} goes to {found}")
    expected = B_first if name == "A @ B" else A_first
    assert np.allclose(found, expected), "the behaviour has changed"
chain = A + B
before = chain.map(point)[0]
longer = chain + A
after = chain.map(point)[0]
print(f"chain: {before}, after `longer = chain + A`: {after}")
assert longer is chain and np.allclose(after - before, [10, 0, 0]), "the behaviour has changed"
PYTHON
