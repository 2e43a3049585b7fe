#!/usr/bin/env bash
# qsm-forward, generate_field(chi, voxel_size=, B0_dir=). Guessed: entry n of both belongs to axis n of
# chi. Seen on 29 November 2026 (qsm-forward 0.32, NumPy 2.4.6, Python 3.11): for B0_dir it does. The
# first two entries of voxel_size are swapped: the field of one voxel, with B0 along axis 2, is that of
# the dipole for (1, 3, 1) mm if (3, 1, 1) is given, and off by 70 % for what is given.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 qsm-forward==0.32
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from qsm_forward.qsm_forward import generate_field

print("qsm-forward", version("qsm-forward"))
n = 16
chi = np.zeros((n, n, n))
chi[8, 8, 8] = 1


def dipole(voxel_size, direction):
    """The field of chi between zeros, less its mean."""
    k = np.stack(np.meshgrid(*[np.fft.fftfreq(2 * n, size) for size in voxel_size], indexing="ij"))
    square = (k**2).sum(0)
    square[0, 0, 0] = 1
    kernel = 1 / 3 - np.tensordot(direction, k, 1) ** 2 / square
    field = np.fft.ifftn(np.fft.fftn(chi, s=(2 * n,) * 3, axes=(0, 1, 2)) * kernel).real[:n, :n, :n]
    return field - field.mean()


def error(voxel_size, expected, direction):
    field = np.asarray(generate_field(chi, voxel_size=list(voxel_size), B0_dir=list(direction)))
    right = dipole(expected, direction)
    return float(np.linalg.norm(field - field.mean() - right) / np.linalg.norm(right))


for direction in ((0, 0, 1), (0, 0.6, 0.8), (0.6, 0, 0.8)):
    for sizes in ((1, 1, 1), (1, 1, 3), (3, 1, 1), (1, 3, 1)):
        swapped = (sizes[1], sizes[0], sizes[2])
        errors = error(sizes, sizes, direction), error(sizes, swapped, direction)
        print(f"B0 {direction}, voxels {sizes}: error {errors[0]:.2f}, swapped {errors[1]:.2f}")
        assert errors[1] < 1e-6, "the behaviour has changed"
        assert (errors[0] < 1e-6) == (sizes == swapped), "the behaviour has changed"
PYTHON
