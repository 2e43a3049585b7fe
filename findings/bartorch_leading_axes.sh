#!/usr/bin/env bash
# bartorch, fft and flip. Guessed: the result has the shape of the input, as the documentation says of
# both, and ifft undoes fft. Seen on 29 November 2026 (bartorch 0.0.17, torch 2.13.0, NumPy 2.4.6, CPU,
# Python 3.11): leading axes of length 1 are gone, so that k-space of one coil has no coils, and axes that
# are counted from the front are others; circshift keeps them. ifft(fft(x)) is x times the number of
# points unless both have unitary=True (documented), and nufft is always divided by its square root.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet bartorch==0.0.17 torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import bartorch
import torch

print("bartorch", version("bartorch"))
for shape, expected in (((2, 6, 5), (2, 6, 5)), ((1, 6, 5), (6, 5)), ((1, 1, 6, 5), (6, 5))):
    x = torch.randn(shape, dtype=torch.complex64)
    seen = [tuple(f.shape) for f in (bartorch.fft(x, (-2, -1)), bartorch.flip(x, (-1,)))]
    print("fft and flip of", shape, "have the shapes", *seen)
    assert seen == [expected] * 2, "the behaviour has changed"
    assert bartorch.circshift(x, 1, -1).shape == shape, "the behaviour has changed"
x = torch.randn(2, 6, 5, dtype=torch.complex64)
back = bartorch.ifft(bartorch.fft(x, (-2, -1)), (-2, -1))
print("ifft(fft(x)) is x times", round(float((back / x).real.mean()), 3))
assert torch.allclose(back, 30 * x, rtol=1e-4, atol=1e-4), "the behaviour has changed"
PYTHON
