#!/usr/bin/env bash
# segyio, sampling intervals above 32.767 ms, as in slow records of passive seismics. Guessed: an interval
# of 40 ms, which fits into the 16 bits of the header without a sign, comes back, or is refused.
# Seen on 29 November 2026 (segyio 1.9.14, NumPy 2.4.6, Python 3.11): the file says -25536, and the times
# of samples and tools.dt fall back to 4 ms, without a word.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.4.6 segyio==1.9.14
"$folder/env/bin/python" -W error - "$folder" <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import segyio

print("segyio", version("segyio"))
seen = {}
for interval in (4000, 32767, 40000):
    name = f"{sys.argv[1]}/{interval}.sgy"
    segyio.tools.from_array2D(name, np.zeros((2, 3), np.float32), dt=interval)
    with segyio.open(name, ignore_geometry=True) as file:
        header = int(file.bin[segyio.BinField.Interval])
        seen[interval] = header, float(file.samples[1] - file.samples[0]), segyio.tools.dt(file)
    print(f"{interval} us: header {header}, samples each {seen[interval][1]} ms, dt {seen[interval][2]}")
assert seen[4000] == (4000, 4.0, 4000) and seen[32767][2] == 32767
assert seen[40000] == (-25536, 4.0, 4000), "the behaviour has changed"
PYTHON
