#!/usr/bin/env bash
# VoxelMorph, affine matrices. Guessed: spatial_transform(image, A) is spatial_transform of the displacements
# affine_to_disp(A), which its documentation calls a map from target to source; and 30 degrees about
# axis 2 of a volume turn its slices as 30 degrees turn an image.
# Seen on 29 November 2026 (voxelmorph 0.3.4, neurite 0.3.4, torch 2.13.0, NumPy 2.4.6, Python 3.11):
# spatial_transform inverts A, affine_to_disp and compose do not: a shift by 3 moves a blob by +3 and by -3.
# angles_to_rotation_matrix follows the right hand about axis 1 and in two dimensions, and the left hand
# about axes 0 and 2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 scipy==1.17.1 \
    scikit-image==0.26.0 nibabel==5.4.2 h5py==3.16.0 matplotlib==3.11.2 pystrum==0.4 \
    neurite==0.3.4 voxelmorph==0.3.4
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
import torch
import voxelmorph

print("voxelmorph", version("voxelmorph"), "neurite", version("neurite"))
n = 33
place = torch.arange(n, dtype=torch.float32) - n // 2
blob = torch.exp(-((place[:, None] - 6) ** 2 + place**2) / 8)
zero = torch.zeros(2, n, n)
shift = torch.eye(3)
shift[0, 2] = 3
transforms = {
    "A": shift,
    "affine_to_disp(A)": voxelmorph.affine_to_disp(shift, shape=(n, n)),
    "compose([A, zero])": voxelmorph.compose([shift, zero]),
}
moves = {}
for name, transform in transforms.items():
    moved = voxelmorph.spatial_transform(blob, transform)
    moves[name] = float((moved.sum(1) * place).sum() / moved.sum()) - 6
    print(f"spatial_transform(blob, {name}) moves it by {moves[name]:.2f}")
assert np.allclose(list(moves.values()), [3, -3, -3], atol=0.02), "the behaviour has changed"

angle = np.deg2rad(30)
flat = np.array(voxelmorph.angles_to_rotation_matrix(torch.tensor([30.0])))
right_hand = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
assert np.allclose(flat, right_hand), "the behaviour has changed"
signs = []
for axis in range(3):
    angles = torch.zeros(3)
    angles[axis] = 30
    matrix = np.array(voxelmorph.angles_to_rotation_matrix(angles))
    e = np.eye(3)[axis]
    cross = np.cross(np.eye(3), e)  # column k is e x e_k
    sine = (matrix * cross).sum() / 2
    signs.append(round(float(sine / np.sin(angle))))
    again = np.cos(angle) * np.eye(3) + (1 - np.cos(angle)) * np.outer(e, e) + sine * cross
    assert np.allclose(matrix, again)  # Rodrigues' formula
print("in two dimensions: 1, about axes 0, 1 and 2:", signs, "(1 is the right hand)")
assert signs == [-1, 1, -1], "the behaviour has changed"
PYTHON
