#!/usr/bin/env bash
# torch on the CPU, 2^25 float32 ones. Guessed: what sums large tensors for users is as exact as
# torch.sum, which adds in blocks: norm(1), average pooling, segment_reduce, histograms with weights.
# Seen on 29 November 2026 (torch 2.13.0, one thread, Python 3.11): these add one number after the
# other, and stop at 2^24 = 16777216: the mean of the pooled ones is 0.5. sum, mean, dot and norm()
# are exact; so is adaptive pooling to one pixel, which is a mean, but not to two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet torch==2.13.0 numpy==2.4.6
OMP_NUM_THREADS=1 "$folder/env/bin/python" -W ignore - <<'PYTHON'
import torch
from torch.nn import functional as F

n = 2**25
ones = torch.ones(n)
of_1, of_2 = ones.view(1, 1, 256, 256, -1), torch.ones(1, 1, 512, 512, 256)
weight = torch.ones(1, 1, requires_grad=True)
F.linear(ones[:, None], weight).sum().backward()
right = {
    "sum": ones.sum() / n,
    "mean": ones.mean(),
    "dot": ones.dot(ones) / n,
    "norm()": ones.norm().square() / n,
    "adaptive_avg_pool3d to 1": F.adaptive_avg_pool3d(of_1, 1),
}
wrong = {
    "norm(1)": ones.norm(1) / n,
    "avg_pool3d": F.avg_pool3d(of_1, (256, 256, n // 65536)),
    "adaptive_avg_pool3d to 2": F.adaptive_avg_pool3d(of_2, (1, 1, 2))[..., 0],
    "segment_reduce": torch.segment_reduce(ones, "sum", lengths=torch.tensor([n])) / n,
    "histogram": torch.histogram(0 * ones, 1, range=(-1.0, 1.0), weight=ones).hist / n,
    "gradient of linear to its weight": weight.grad / n,
}
print("torch", torch.__version__, {name: round(float(v), 4) for name, v in (right | wrong).items()})
assert all(abs(float(v) - 1) < 1e-3 for v in right.values()), "the behaviour has changed"
assert all(abs(float(v) - 0.5) < 1e-3 for v in wrong.values()), "the behaviour has changed"
PYTHON
