#!/usr/bin/env bash
# Proximal maps of the number of entries that are not 0, in PyProximal and SCICO. Guessed: both keep
# an entry above sqrt(2 t), as that minimises [x != 0] + (x - z)^2 / 2t. Seen on 29 November 2026
# (PyProximal 0.13.0, SCICO 0.0.7, Python 3.11): both keep it above t. For z = 1.2 and t = 1 they
# return 1.2 with the objective 1, where 0 has 0.72.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet pyproximal==0.13.0 scico==0.0.7
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import pyproximal
import scico.numpy as snp
from scico.functional import L0Norm

z, step = np.array([0.9, 1.2, 1.5]), 1.0
for name, found in (
    ("PyProximal", pyproximal.L0(1.0).prox(z.copy(), step)),
    ("SCICO", np.asarray(L0Norm().prox(snp.array(z), step))),
):
    kept = 1 + (found[1] - z[1]) ** 2 / (2 * step)
    print(f"{name}: {found}; the objective of 1.2 is {kept:.3g}, that of 0 is {z[1]**2 / 2:.3g}")
    assert np.allclose(found, [0, 1.2, 1.5]), "the behaviour has changed"
PYTHON
