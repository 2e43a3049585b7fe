#!/usr/bin/env bash
# Sums of many float32 numbers in torch, NumPy and SciPy. Guessed: histograms, averages and products
# of 2^24 + 64 ones are right, as torch.sum is. Seen on 29 November 2026 (torch 2.13.0 with one thread,
# NumPy 2.4.6, SciPy 1.17.1, CPU, Python 3.11): a float32 to which ones are added stays at 2^24, which
# is 16777216. That is the result of torch.histc, torch.histogram, torch.bincount with weights,
# index_add, coalesce of a sparse tensor, a vector times a matrix (N, 2), numpy.cumsum and SciPy's CSR
# times a vector; avg_pool1d of ones over 2^25 is 0.5. torch.cumsum, adaptive_avg_pool1d and A.sum(1)
# of SciPy are right.
# batch_norm of 2^22 x 2 numbers around 100 with standard deviation 1 has errors above 1; with the
# channels first it has 3e-5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import scipy.sparse
import torch

torch.set_num_threads(1)  # several threads count one part each
n, most = 2**24 + 64, 2**24
ones, first = torch.ones(n), torch.zeros(n, dtype=torch.int64)
rows, places = np.array([0, n], np.int32), np.arange(n, dtype=np.int32)
A = scipy.sparse.csr_array((ones.numpy(), places, rows), shape=(1, n))
stopped = {
    "histc": torch.histc(first.float(), 2, -1, 1)[1],
    "histogram": torch.histogram(first.float(), 2, range=(-1.0, 1.0)).hist[1],
    "bincount": torch.bincount(first, weights=ones)[0],
    "index_add": torch.zeros(1).index_add(0, first, ones)[0],
    "coalesce": torch.sparse_coo_tensor(first[None], ones, (1,)).coalesce().values()[0],
    "avg_pool1d": torch.nn.functional.avg_pool1d(ones[None, None], n)[0, 0, 0] * n,
    "vector times matrix": (ones @ torch.ones(n, 2))[0],
    "numpy.cumsum": np.cumsum(ones.numpy())[-1],
    "csr @ x": (A @ ones.numpy())[0],
}
right = {
    "torch.cumsum": ones.cumsum(0)[-1],
    "adaptive_avg_pool1d": torch.nn.functional.adaptive_avg_pool1d(ones[None, None], 1) * n,
    "csr.sum(1)": A.sum(1)[0],
}
for name, found in {**stopped, **right}.items():
    print(f"{name}: {int(found)} of {n}")
assert all(int(found) == most for found in stopped.values()), "the behaviour has changed"
assert all(int(found) == n for found in right.values()), "the behaviour has changed"
x = torch.randn(2**22, 2, generator=torch.Generator().manual_seed(0)) + 100
exact = (x.double() - x.double().mean(0)) / x.double().std(0, correction=0)
norm = torch.nn.functional.batch_norm
found = norm(x, None, None, training=True)
channels = norm(x.T.contiguous()[None], None, None, training=True)[0].T
errors = [float((each - exact).abs().max()) for each in (found, channels)]
print("errors of batch_norm, (N, C) and (1, C, N):", errors)
assert errors[0] > 1 and errors[1] < 1e-4, "the behaviour has changed"
PYTHON
