#!/usr/bin/env bash
# radontea, reconstruction from parallel beams. Guessed: angles over a whole turn give the image that half
# a turn gives, with each method, in one scale and about one middle, and are not changed. Seen on 29
# November 2026 (radontea 0.5.2, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): "backproject" does. "sart" and
# "art" take pi off the angles, in the array of the caller, and do not mirror the rays: from a whole turn
# "sart" has the object twice, at half of its size, once turned by half a turn, and "art" has an error
# above 1. "integrate" returns (A / pi)^2 times the image for A angles, half a pixel further along both axes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 radontea==0.5.2
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import radontea

print("radontea", version("radontea"))
n, width, x0, y0 = 33, 3.0, 4.0, -3.0
s = np.arange(n) - (n - 1) / 2


def sinogram(angles):
    """Return the exact projections of a Gaussian at (x0, y0)."""
    away = s - (x0 * np.cos(angles) + y0 * np.sin(angles))[:, None]
    return np.sqrt(2 * np.pi) * width * np.exp(-(away**2) / (2 * width**2))


image = np.exp(-((s - x0) ** 2 + (s[:, None] - y0) ** 2) / (2 * width**2))
inside = s**2 + s[:, None] ** 2 < 14**2
there, opposite = (13, 20), (19, 12)
for name, options, half, whole in (
    ("backproject", {}, 40, 80),
    ("sart", {"iterations": 25}, 12, 24),
    ("art", {"iterations": 3}, 12, 24),
):
    errors = []
    for turn, count in ((np.pi, half), (2 * np.pi, whole)):
        angles = np.linspace(0, turn, count, endpoint=False) + 0.01
        given = angles.copy()
        found = getattr(radontea, name)(sinogram(angles), angles, **options)
        errors.append(np.linalg.norm((found - image)[inside]) / np.linalg.norm(image[inside]))
        print(
            f"{name}, {turn / np.pi:.0f} pi: {found[there]:.2f} at the object, {found[opposite]:.2f} "
            f"opposite, error {errors[-1]:.2f}; largest angle before and after: {given.max():.2f}, {angles.max():.2f}"
        )
        changed = not np.array_equal(given, angles)
        assert changed == (name != "backproject" and turn > 4), "the behaviour has changed"
    if name == "backproject":
        assert max(errors) < 0.02, "the behaviour has changed"
    else:
        assert errors[0] < 0.4 and errors[1] > 0.65, "the behaviour has changed"
    if name == "sart":
        halves = found[there], found[opposite]
        assert np.allclose(halves, 0.5, atol=0.03), "the behaviour has changed"

for count in (20, 40):
    angles = np.linspace(0, np.pi, count, endpoint=False)
    found = radontea.integrate(sinogram(angles), angles).real
    above = np.clip(found, found.max() / 5, None) - found.max() / 5
    middle = [float((above.sum(axis) * s).sum() / above.sum()) for axis in (0, 1)]
    scale = found.max() / (count / np.pi) ** 2
    print(f"integrate, {count} angles: {found.max():.0f}, (A / pi)^2 is {(count / np.pi) ** 2:.0f}; middle {middle}")
    assert abs(scale - 1) < 0.07, "the behaviour has changed"
    assert np.allclose(middle, (x0 + 0.5, y0 + 0.5), atol=0.05), "the behaviour has changed"
PYTHON
