#!/usr/bin/env bash
# blochsimulator, k-space of a phantom and reconstruct_cartesian of it. Guessed: fully sampled k-space without
# noise gives the phantom back, voxel by voxel.
# Seen on 29 November 2026 (blochsimulator 2.9.5, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): for even sizes the
# image is half a voxel further along each axis, and a point of 1 becomes four of 0.41, as phantoms have
# their middle at (N - 1) / 2 and the transform at N / 2. For odd sizes it is one voxel further.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 h5py==3.16.0 \
    xarray==2026.9.0
"$folder/env/bin/python" -m pip install --quiet --no-deps blochsimulator==2.9.5
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from blochsimulator.kspace import KSpaceSimulator
from blochsimulator.phantom import Phantom

print("blochsimulator", version("blochsimulator"))
simulator = KSpaceSimulator(verbose=False)
for n in (8, 9, 32, 33):
    ones = np.ones((n, n))
    point = np.zeros((n, n))
    point[2, 5] = 1
    phantom = Phantom((n, n), (0.24, 0.24), ones, 0.1 * ones, pd_map=point, df_map=0 * ones)
    trajectory = simulator.generate_cartesian_trajectory((n, n), (0.24, 0.24))
    signal = simulator.simulate_signal(phantom, trajectory)
    image = abs(simulator.reconstruct_cartesian(signal))
    found = np.argwhere(image > 0.9 * image.max()).tolist()
    print(f"{n} x {n}: a point of 1 at [2, 5] is {image.max():.2f} at {found}")
    # the same phantom and signal, transformed with the same positions, is exact
    k = np.stack([signal["kx"], signal["ky"]], -1)
    r = phantom.positions.reshape(n * n, 3)[:, :2]
    exact = np.exp(2j * np.pi * r @ k.T) @ signal["signal"] / n**2
    assert np.allclose(abs(exact.reshape(n, n)), point, atol=1e-9)
    if n % 2:
        assert found == [[3, 6]] and np.isclose(image.max(), 1), "the behaviour has changed"
    else:
        assert found == [[2, 5], [2, 6], [3, 5], [3, 6]], "the behaviour has changed"
        assert np.isclose(image.max(), 0.41, atol=0.01), "the behaviour has changed"
PYTHON
