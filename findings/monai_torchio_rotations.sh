#!/usr/bin/env bash
# Parameters of MONAI and TorchIO that move images. Guessed: an angle of 30 degrees about the last axis
# turns axis 0 towards axis 1 in both, as a quarter turn of Rotate90 does; a scale of 1.5 enlarges; a
# shift of 3 moves by 3 voxels.
# Seen on 29 November 2026 (MONAI 1.6.1, TorchIO 1.2.1, torch 2.13.0, NumPy 2.4.6, Python 3.11): so it is
# in TorchIO. In MONAI, Rotate and Affine turn by -30 degrees, Affine shrinks by 1.5 and moves by -3,
# while Rotate90 turns by 90 degrees and Zoom enlarges: the parameters of the first two move the grid.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 monai==1.6.1 torchio==1.2.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import math
from importlib.metadata import version

import monai.transforms as monai
import numpy as np
import torch
import torchio

n = 33
axes = np.indices((n, n, n)) - n // 2
blob = np.exp(-((axes[0] - 8) ** 2 + axes[1] ** 2 + axes[2] ** 2) / 8).astype(np.float32)


def middle(image):
    image = np.asarray(image, dtype=np.float64)[0]
    return np.array([(image * axis).sum() for axis in axes]) / image.sum()


def angle(image):
    x, y, _ = middle(image)
    return round(math.degrees(math.atan2(y, x)))


def in_monai(**parameters):
    return monai.Affine(padding_mode="zeros", image_only=True, **parameters)(blob[None])


def in_torchio(scale=1, degrees=0, shift=0):
    transform = torchio.Affine(
        scales=scale, degrees=(0, 0, degrees), translation=(shift, 0, 0), center="image"
    )
    return transform(torchio.ScalarImage(tensor=torch.from_numpy(blob)[None])).data


turn = math.radians(30)
angles = {
    "TorchIO Affine": angle(in_torchio(degrees=30)),
    "MONAI Rotate": angle(monai.Rotate((0, 0, turn))(blob[None])),
    "MONAI Affine": angle(in_monai(rotate_params=(0, 0, turn))),
    "MONAI Rotate90": angle(monai.Rotate90(k=1)(blob[None])),
}
sums = {
    "TorchIO Affine": float(in_torchio(scale=1.5).sum() / blob.sum()),
    "MONAI Affine": float(in_monai(scale_params=(1.5, 1.5, 1.5)).sum() / blob.sum()),
    "MONAI Zoom": float(monai.Zoom(1.5)(blob[None]).sum() / blob.sum()),
}
shifts = {
    "TorchIO Affine": middle(in_torchio(shift=3))[0] - 8,
    "MONAI Affine": middle(in_monai(translate_params=(3, 0, 0)))[0] - 8,
}
print("MONAI", version("monai"), "TorchIO", version("torchio"))
print("angles:", angles)
print("volumes:", {name: round(found, 2) for name, found in sums.items()})
print("shifts:", {name: round(float(found), 2) for name, found in shifts.items()})
assert list(angles.values()) == [30, -30, -30, 90], "the behaviour has changed"
assert [found > 2 for found in sums.values()] == [True, False, True], "the behaviour has changed"
assert sums["MONAI Affine"] < 0.4 and np.allclose([*shifts.values()], [3, -3], atol=0.1), (
    "the behaviour has changed"
)
PYTHON
