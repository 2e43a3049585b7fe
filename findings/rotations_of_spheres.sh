#!/usr/bin/env bash
# Rotations of functions on the sphere in healpy, ducc0 and pyshtools. Guessed: 30 degrees about z, the
# first angle of each, move the maximum of cos(longitude) from 0 to 30 degrees.
# Seen on 29 November 2026 (healpy 1.20.1, ducc0 0.42.0, pyshtools 4.14.1, NumPy 2.4.6, Python 3.11): to
# 30 in healpy.rotate_alm, ducc0 and pyshtools with body=True; to -30 in healpy.Rotator, of vectors, maps
# and coefficients, and in pyshtools by default: these turn the coordinates.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 healpy==1.20.1 ducc0==0.42.0 \
    pyshtools==4.14.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import ducc0
import healpy
import numpy as np
import pyshtools

print(*(f"{name} {version(name)}" for name in ("healpy", "ducc0", "pyshtools")))
turn, largest = np.radians(30), 2
start = np.zeros(healpy.Alm.getsize(largest), dtype=complex)
start[healpy.Alm.getidx(largest, 1, 1)] = -1  # cos(longitude) times a number


def of_map(values):
    x, y, _ = (np.array(healpy.pix2vec(16, np.arange(values.size))) * values).sum(1)
    return round(np.degrees(np.arctan2(y, x)))


def of_coefficients(alm):
    return of_map(healpy.alm2map(alm, 16, lmax=largest))


def of_pyshtools(**options):
    function = pyshtools.SHCoeffs.from_zeros(largest)
    function.set_coeffs(1, 1, 1)
    (cosine, sine) = function.rotate(30, 0, 0, **options).coeffs[:, 1, 1]
    return round(np.degrees(np.arctan2(sine, cosine)))


active, rotator = start.copy(), healpy.Rotator(rot=(30, 0, 0))
healpy.rotate_alm(active, turn, 0, 0)
x, y, _ = rotator(np.array([1.0, 0, 0]))
seen = {
    "start": of_coefficients(start),
    "healpy.rotate_alm": of_coefficients(active),
    "ducc0.sht.rotate_alm": of_coefficients(ducc0.sht.rotate_alm(start, largest, turn, 0, 0)),
    "pyshtools, body=True": of_pyshtools(body=True),
    "pyshtools": of_pyshtools(),
    "healpy.Rotator, vector": round(np.degrees(np.arctan2(y, x))),
    "healpy.Rotator.rotate_alm": of_coefficients(rotator.rotate_alm(start)),
    "healpy.Rotator.rotate_map_pixel": of_map(
        rotator.rotate_map_pixel(healpy.alm2map(start, 16, lmax=largest))
    ),
}
print(seen)
assert list(seen.values()) == [0, 30, 30, 30, -30, -30, -30, -30], "the behaviour has changed"
PYTHON
