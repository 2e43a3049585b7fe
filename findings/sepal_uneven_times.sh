#!/usr/bin/env bash
# sepal, models of contrast agents for dynamic MRI. Guessed: concentrations at times that are not evenly spaced
# are right, as the documentation speaks of such times, and fits from several starts return the best of them,
# as least_squares_global says.
# Seen on 30 November 2026 (sepal 1.3.2, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): with intervals of 2 s and then
# of 20 s the concentration at the end is a quarter of what it must be, for any upsampling: integrals take the
# shortest interval as that of a grid which has the mean one. least_squares_global returns the first start.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 nibabel==5.4.2 \
    joblib==1.6.0 sepal==1.3.2
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from scipy.integrate import cumulative_trapezoid
from sepal.aifs import Parker
from sepal.pk_models import Patlak
from sepal.utils.utilities import least_squares_global

print("sepal", version("sepal"))
plasma, leakage = 0.02, 0.01  # volume fraction, 1 / min
arterial = Parker(0.42)
fine = np.arange(12001) * 0.05
curve = arterial.c_ap(fine)
integral = cumulative_trapezoid(curve, fine, initial=0)
exact = plasma * curve + leakage / 60 * integral
times = {
    "even": np.arange(0, 601, 2.0),
    "uneven": np.concatenate([np.arange(0, 60, 2.0), np.arange(60, 601, 20.0)]),
}
for name, t in times.items():
    right = np.interp(t, fine, exact)[-1]
    for factor in (1, 4, 16):
        found = Patlak(t, arterial, upsample_factor=factor).conc(plasma, leakage)[0][-1]
        print(f"{name} times, upsampling {factor}: {found:.4f} mM at 600 s, exact {right:.4f} mM")
        expected = {"even": 1.0, "uneven": 0.245}[name]
        assert np.isclose(found / right, expected, atol=0.01), "the behaviour has changed"


def residuals(x):  # 0 at 1, and another minimum at -0.85
    return np.array([x[0] ** 2 - 1, 0.5 * (x[0] - 1)])


for starts in ([[-1.5], [1.5]], [[1.5], [-1.5]]):
    found = least_squares_global(residuals, starts)
    print(f"starts {starts}: x = {found.x[0]:.3f}, cost {found.cost:.3f}; best x = 1, cost 0")
    assert found.success
    expected = 1 if starts[0][0] > 0 else -0.854
    assert np.isclose(found.x[0], expected, atol=1e-2), "the behaviour has changed"
PYTHON
