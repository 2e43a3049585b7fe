#!/usr/bin/env bash
# proxmin, operators. Guessed: prox_unity and prox_unity_plus are what their documentation says, projections
# onto the numbers with sum 1 and onto the simplex, and prox_max_entropy is the proximal map of x log x. Seen
# on 30 November 2026 (proxmin 0.6.12, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): the first two divide by the
# sum. A proximal gradient method with prox_unity_plus converges to a point which is not the minimum.
# prox_max_entropy returns numbers below 0 as they are, where x log x is not defined; above 0 it is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 proxmin==0.6.12
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import proxmin
from proxmin.operators import prox_max_entropy, prox_unity, prox_unity_plus
from scipy.optimize import minimize, minimize_scalar

print("proxmin", version("proxmin"))
b = np.array([2.0, 0.5, -0.3])


def distance(x):
    return float(((x - b) ** 2).sum() / 2)


total = {"type": "eq", "fun": lambda x: x.sum() - 1}
for name, bounds in (("prox_unity", None), ("prox_unity_plus", [(0, None)] * 3)):
    right = minimize(distance, np.ones(3) / 3, bounds=bounds, constraints=[total], tol=1e-12).x
    found = getattr(proxmin.operators, name)(b.copy(), 1.0)
    print(f"{name}: {np.round(found, 3)}, nearest {np.round(right, 3)}; {distance(found):.4f}, {distance(right):.4f}")
    expected = b if name == "prox_unity" else np.maximum(b, 0)
    assert np.allclose(found, expected / expected.sum()), "the behaviour has changed"
    assert distance(found) > distance(right) + 0.05, "the behaviour has changed"

x = np.ones(3) / 3
proxmin.pgm(x, lambda x: x - b, lambda x, it=None: 0.5, prox=prox_unity_plus, max_iter=5000, e_rel=1e-12)
print(f"pgm on the simplex: {np.round(x, 3)}, {distance(x):.4f}; the minimum is {distance(right):.4f}")
assert distance(x) > distance(right) + 0.05, "the behaviour has changed"

for given in (-1.0, -0.1, 0.1, 1.0):
    found = float(prox_max_entropy(np.array([given]), 1.0)[0])
    right = minimize_scalar(
        lambda x: x * np.log(x) + (x - given) ** 2 / 2, bounds=(1e-9, 3), method="bounded", options={"xatol": 1e-9}
    ).x
    print(f"prox_max_entropy({given}) = {found:.4f}; minimum at {right:.4f}")
    assert np.isclose(found, right if given > 0 else given, atol=1e-5), "the behaviour has changed"
PYTHON
