#!/usr/bin/env bash
# zarr.create_array(data=x) in a MemoryStore. Guessed: it stores the numbers of x, so later changes of x are no
# changes of the array.
# Seen on 29 November 2026 (zarr 3.1.6, NumPy 2.4.6, Python 3.11): without a compressor, a chunk that is all
# of x keeps the memory of x: x[1] = 77 changes the array. With a compressor or in a folder, it does not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet zarr==3.1.6 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import tempfile

import numpy as np
import zarr

seen = {}
for name, store, options in [
    ("in memory", zarr.storage.MemoryStore(), {"compressors": None}),
    ("compressed", zarr.storage.MemoryStore(), {}),
    ("in a folder", tempfile.mkdtemp(), {"compressors": None}),
]:
    x = np.arange(4.0)
    array = zarr.create_array(store, data=x, chunks=x.shape, **options)
    x[1] = 77
    seen[name] = float(array[1])
print("zarr", zarr.__version__, "array[1] after x[1] = 77:", seen)
assert seen == {"in memory": 77, "compressed": 1, "in a folder": 1}, "the behaviour has changed"
PYTHON
