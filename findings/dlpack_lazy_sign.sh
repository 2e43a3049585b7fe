#!/usr/bin/env bash
# Tensors that leave torch by DLPack. Guessed: a view whose sign torch keeps as a bit is refused, as
# Tensor.numpy() refuses it, and as DLPack itself refuses lazy conjugates. Seen on 29 November 2026 (torch
# 2.13.0, NumPy 2.4.6, Python 3.11; torch 2.14.1 is alike): numpy.from_dlpack and torch.from_dlpack of
# z.conj().imag have the opposite sign, without a word; so has the imaginary part of ifft of real numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import torch

print("torch", torch.__version__, "numpy", np.__version__)


def refuses(call, *args):
    try:
        call(*args)
    except (RuntimeError, BufferError):
        return True
    return False


z = torch.tensor([1 + 2j, 3 - 4j])
assert refuses(np.from_dlpack, z.conj()), "the behaviour has changed"
for x in (z.conj().imag, torch.fft.ifft(torch.tensor([1.0, 2.0, 4.0])).imag):
    arrays = np.from_dlpack(x), torch.from_dlpack(x)
    print(x.tolist(), "becomes", *(array.tolist() for array in arrays))
    assert refuses(x.numpy), "the behaviour has changed"
    assert all(array.tolist() == (-x).tolist() for array in arrays), "the behaviour has changed"
    assert np.array_equal(np.from_dlpack(x.resolve_neg()), x.tolist()), "the behaviour has changed"
PYTHON
