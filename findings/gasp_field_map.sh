#!/usr/bin/env bash
# gasp-ssfp, ssfp(T1, T2, TR, TE, alpha, field_map=, f0=), signals of balanced sequences. Guessed: f0, "off-
# resonance (in Hz), includes the chemical shift", and field_map, "B0 field map (in Hz)", add up.
# Seen on 30 November 2026 (gasp-ssfp 0.0.3, NumPy 2.4.6, SciPy 1.17.1, Python 3.11): they have opposite signs.
# With 50 Hz in both, spins are on resonance; f0 has the sign of the Bloch equations, with exp(+2 pi i f t).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 matplotlib==3.11.2 \
    scikit-image==0.26.0
"$folder/env/bin/python" -m pip install --quiet --no-deps gasp-ssfp==0.0.3
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from gasp.ssfp import ssfp

print("gasp-ssfp", version("gasp-ssfp"))
T1, T2, TR, TE, flip, cycle = 1.0, 0.1, 5e-3, 2.5e-3, 0.5, 0.7
E1, E2 = np.exp(-TR / T1), np.exp(-TR / T2)


def steady(hertz):
    """Return the signal at TE in the steady state of the Bloch equations, pulses turning by cycle."""
    turn = 2 * np.pi * hertz * TR - cycle  # in the frame of the pulses
    c, s = np.cos(flip), np.sin(flip)
    pulse = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])  # about y, from z to x
    c, s = np.cos(turn), np.sin(turn)
    free = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) * np.array([E2, E2, E1])[:, None]
    M = np.linalg.solve(np.eye(3) - pulse @ free, pulse @ [0, 0, 1 - E1])
    return (M[0] + 1j * M[1]) * np.exp(2j * np.pi * hertz * TE - TE / T2)


for f0, field in ((0, 0), (50, 0), (0, 50), (50, 50), (50, -50)):
    found = complex(ssfp(T1, T2, TR, TE, flip, dphi=(cycle,), field_map=field, f0=f0))
    print(f"f0 {f0} Hz, field_map {field} Hz: {found:.4f}, Bloch equations {steady(f0 + field):.4f}")
    assert np.isclose(found, steady(f0 - field)), "the behaviour has changed"
PYTHON
