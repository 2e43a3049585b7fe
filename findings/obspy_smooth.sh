#!/usr/bin/env bash
# ObsPy, signal.util.smooth, "a central moving average", which cpxtrace and freqattributes use. Guessed:
# smooth(x, 1) is the mean of a sample and its two neighbours. Seen on 29 November 2026 (ObsPy 1.5.1,
# NumPy 2.4.6, SciPy 1.17.1, Python 3.11): it is the mean of the neighbours without the sample: 1 in the
# middle of zeros becomes 0.5, 0, 0.5, and 1, -1, 1, -1, .. changes its sign and keeps its size.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 scipy==1.17.1 obspy==1.5.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from obspy.signal.util import smooth

print("obspy", version("obspy"))
point, signs = np.eye(9)[4], np.resize([1.0, -1.0], 9)
print("a point:", smooth(point, 1), "alternating signs:", smooth(signs, 1))
assert np.allclose(smooth(point, 1)[3:6], [0.5, 0, 0.5]), "the behaviour has changed"
assert np.allclose(smooth(signs, 1)[2:7], -signs[2:7]), "the behaviour has changed"
for n in (1, 2, 3):  # a dense sum, away from the border
    x = np.random.default_rng(n).standard_normal(30)
    around = [k for k in range(-n, n + 1) if k]
    expected = [np.mean(x[i + np.array(around)]) for i in range(10, 20)]
    assert np.allclose(smooth(x, n)[10:20], expected), "the behaviour has changed"
PYTHON
