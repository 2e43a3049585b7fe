#!/usr/bin/env bash
# SimpleITK, Derivative(image, direction, order=2) of an image with a spacing. Guessed: the second
# derivative in units of the spacing, as the first is and as Laplacian has it.
# Seen on 29 November 2026 (SimpleITK 2.5.7, NumPy 2.4.6, Python 3.11): the second difference is
# divided by the spacing, not by its square. For x^2, where 2 is right, it is 4 with a spacing of 2 and 1
# with a spacing of 0.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 SimpleITK==2.5.7
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import SimpleITK as sitk

seen = {}
for spacing in (1.0, 2.0, 0.5):
    x = np.arange(7) * spacing
    image = sitk.GetImageFromArray(np.tile(x**2, (3, 1)))
    image.SetSpacing((spacing, 1.0))
    first, second = (sitk.Derivative(image, 0, order, True) for order in (1, 2))
    values = [sitk.GetArrayFromImage(each)[1, 3] for each in (first, second, sitk.Laplacian(image))]
    seen[spacing] = [float(value) for value in values]
    assert np.isclose(seen[spacing][0], 2 * x[3]) and np.isclose(seen[spacing][2], 2)
print("SimpleITK", version("SimpleITK"), "x^2, whose second derivative is 2:", seen)
assert [seen[spacing][1] for spacing in seen] == [2, 4, 1], "the behaviour has changed"
PYTHON
