"""The non-uniform Fourier transform of finufft."""

import math

import numpy as np
import pytest
import torch

from linops_imaging import NUFFT

finufft = pytest.importorskip("finufft")


@pytest.mark.parametrize("sizes", [(31,), (24, 17), (12, 9, 10)])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
def test_both_directions_agree(sizes: tuple[int, ...], tol: float) -> None:
    unit = torch.rand(300, len(sizes), dtype=torch.float64) - 0.5
    A = NUFFT(unit * torch.tensor(sizes), sizes, ("K",), tol=tol, method="interpolate")
    x = torch.randn(sizes, dtype=torch.complex128)
    angles = [np.ascontiguousarray(at) for at in (2 * math.pi * unit).T.numpy()]
    plans = [
        finufft.Plan(kind, sizes, eps=1e-12, isign=sign, dtype="complex128")
        for kind, sign in ((2, -1), (1, 1))
    ]
    for plan in plans:
        plan.setpts(*angles)
    y = A(x)
    scale = math.sqrt(math.prod(sizes))
    forward = torch.from_numpy(plans[0].execute(x.numpy())) / scale
    back = torch.from_numpy(plans[1].execute(y.numpy())) / scale
    assert (y - forward).norm() < tol * forward.norm()
    assert (A.H(y) - back).norm() < tol * back.norm()
