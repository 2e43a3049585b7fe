#!/usr/bin/env bash
# DIPY, gradient directions of .bvec files. FSL and BIDS give them along the axes of the voxels, with x negated
# if the determinant of the affine map is positive. Guessed: read_bvals_bvecs or gradient_table does that, as
# MRtrix does, or refuses such images.
# Seen on 29 November 2026 (DIPY 1.12.1, nibabel 5.4.2, NumPy 2.4.6, SciPy 1.17.1, Python 3.11; MRtrix 3.0.3):
# the directions are taken as they are. A fibre along (2, 1, 0) is found with voxels from right to left, and
# along (-2, 1, 0) if the same image is stored from left to right, with the same .bvec file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 nibabel==5.4.2 dipy==1.12.1
"$folder/env/bin/python" -W ignore - "$folder" <<'PYTHON'
import sys
from importlib.metadata import version

import nibabel
import numpy as np
from dipy.core.gradients import gradient_table
from dipy.io.gradients import read_bvals_bvecs
from dipy.reconst.dti import TensorModel

print("DIPY", version("dipy"))
fibre = np.array([2.0, 1, 0]) / np.sqrt(5)  # right and anterior
tensor = 3e-4 * np.eye(3) + 1.4e-3 * np.outer(fibre, fibre)  # mm^2 / s
patient = np.random.default_rng(0).standard_normal((20, 3))  # directions in the scanner
patient /= np.linalg.norm(patient, axis=1, keepdims=True)
signal = np.exp(-1000 * np.einsum("ni,ij,nj->n", patient, tensor, patient))
image = np.broadcast_to(np.append(1, signal), (2, 2, 2, 21)).astype(np.float32)
for name, x in (("from right to left", -2.0), ("from left to right", 2.0)):
    affine = np.diag([x, 2, 2, 1])
    along_axes = patient * np.sign(np.diag(affine)[:3])
    bvecs = along_axes * [-1 if np.linalg.det(affine) > 0 else 1, 1, 1]  # what FSL and BIDS say
    stem = f"{sys.argv[1]}/dwi"
    np.savetxt(f"{stem}.bvec", np.vstack([np.zeros(3), bvecs]).T)
    np.savetxt(f"{stem}.bval", [[0] + [1000] * 20])
    nibabel.save(nibabel.Nifti1Image(image, affine), f"{stem}.nii")
    assert np.allclose(bvecs, patient * [-1, 1, 1])  # one file for both

    read = nibabel.load(f"{stem}.nii")
    bvals, directions = read_bvals_bvecs(f"{stem}.bval", f"{stem}.bvec")
    model = TensorModel(gradient_table(bvals, bvecs=directions))
    largest = model.fit(read.get_fdata()).evecs[0, 0, 0, :, 0]
    found = read.affine[:3, :3] @ largest / 2  # from voxels to the patient
    found *= np.sign(found[1])
    print(f"voxels {name}: a fibre along {fibre.round(2)} is found along {found.round(2)}")
    expected = fibre * [-1 if x > 0 else 1, 1, 1]
    assert np.allclose(found, expected, atol=1e-4), "the behaviour has changed"
PYTHON
