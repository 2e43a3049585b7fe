#!/usr/bin/env bash
# safetensors.numpy of arrays that are not contiguous. Guessed: they are saved as they are, or refused, as
# safetensors.torch does with a ValueError.
# Seen on 29 November 2026 (safetensors 0.7.0 and 0.8.0, NumPy 2.4.6, Python 3.11): 0.7.0 saves them as they
# are. 0.8.0 saves as many bytes of memory as the array has from its first element on, without an error: a
# transposed matrix comes back with its numbers in another order, and x[::2] as the first half of x. (Its
# documentation asks for contiguous arrays, that of 0.7.0 does, too.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
for version in 0.7.0 0.8.0; do
  "$folder/env/bin/python" -m pip install --quiet "safetensors==$version" numpy==2.4.6
  "$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import safetensors
from safetensors.numpy import load, save

x = np.arange(6.0)
arrays = {"every second": x[::2], "transposed": x.reshape(2, 3).T, "contiguous": x.reshape(2, 3)}
loaded = {name: load(save({"x": array}))["x"] for name, array in arrays.items()}
right = [name for name, array in arrays.items() if np.array_equal(loaded[name], array)]
print("safetensors", safetensors.__version__, "right:", right, "x[::2]:", loaded["every second"])
if safetensors.__version__ == "0.7.0":
    assert right == [*arrays], "the behaviour has changed"
else:
    assert right == ["contiguous"], "the behaviour has changed"
    assert loaded["every second"].tolist() == [0, 1, 2], "the behaviour has changed"
    assert loaded["transposed"].tolist() == [[0, 1], [2, 3], [4, 5]], "the behaviour has changed"
PYTHON
done
