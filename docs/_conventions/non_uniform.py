"""Non-uniform Fourier transforms."""

import math
from typing import Any

import numpy as np
import torch
from table import row

SECTION = "Non-uniform Fourier transform"
OURS = "sum x[r] exp(-2 pi i l (r - N // 2) / N) / sqrt(N), l in cycles per field of view"


def ramp(n: int, omega: float, middle: float, sign: int = -1, at: int = 1) -> complex:
    """Return the value of an impulse at index ``at``."""
    return complex(np.exp(sign * 1j * omega * (at - middle)))


def impulse(n: int, at: int = 1) -> Any:
    x = np.zeros(n, complex)
    x[at] = 1
    return x


@row(
    SECTION,
    "finufft",
    guess="one sign for both types, as in the FFT and its inverse",
    here="`interop.from_finufft(plan)`; `trajectories.convert(locs, 'finufft', N)`",
)
def finufft_signs() -> str:
    import finufft

    omega, n = np.array([0.7]), 5
    plans = [finufft.Plan(kind, (n,), eps=1e-12) for kind in (2, 1)]
    for plan in plans:
        plan.setpts(omega)
    forward = plans[0].execute(impulse(n))[0]
    back = plans[1].execute(np.ones(1, complex))[1]
    assert np.isclose(forward, ramp(n, 0.7, n // 2, -1)), forward
    assert np.isclose(back, ramp(n, 0.7, n // 2, 1)), back
    return "type 2 has minus and type 1 plus by default; modes from -N // 2; radians; no scale"


@row(
    SECTION,
    "pytorch-finufft",
    guess="the defaults of finufft",
    here="`interop.from_pytorch_finufft(function, points, sizes)`",
)
def pytorch_finufft() -> str:
    import pytorch_finufft.functional as functional

    omega, n = torch.tensor([[0.7]], dtype=torch.float64), 5
    forward = functional.finufft_type2(omega, torch.from_numpy(impulse(n))).item()
    back = functional.finufft_type1(omega, torch.ones(1, dtype=torch.complex128), (n,))[1].item()
    assert np.isclose(forward, ramp(n, 0.7, 0)) and np.isclose(back, ramp(n, 0.7, 0)), back
    return "minus in both types, and index 0 is frequency 0: type 1 is not the adjoint of type 2"


@row(
    SECTION,
    "mri-nufft",
    guess="1 / sqrt(N), and radians have to be named",
    here="`interop.from_mrinufft(op)`",
)
def mri_nufft() -> str:
    from mrinufft.operators.interfaces.finufft import MRIfinufft

    sizes, seen = (6, 8), []
    for largest in (0.5, 0.51):
        points = np.array([[0.1, 0.2], [largest, 0.0]])
        op = MRIfinufft(points, sizes, eps=1e-9)
        image = np.zeros(sizes, complex)
        image[3, 5] = 1  # one after the middle of the last axis
        value = op.op(image)[0]
        scale = abs(value) * math.sqrt(math.prod(sizes))
        seen.append((round(scale, 6), float(np.angle(value) / -0.2)))
    assert seen[0][0] == seen[1][0] == 0.5
    assert np.isclose(seen[0][1], 2 * math.pi) and np.isclose(seen[1][1], 1), seen
    return (
        "1 / sqrt(2^D N); cycles per pixel if no location exceeds 0.5, else all are radians: one "
        "location of 0.51 changes the unit of the others"
    )


@row(
    SECTION,
    "mri-nufft",
    guess="`adj_op` is the adjoint of `op`",
    here="`A.H`, and `A.H @ Diagonal(weights, ('...', 'K'))`",
)
def mri_nufft_density() -> str:
    from mrinufft.operators.interfaces.finufft import MRIfinufft

    rng = np.random.default_rng(0)
    points = rng.uniform(-3, 3, (9, 2))
    weights = rng.uniform(1, 2, 9)
    op = MRIfinufft(points, (6, 8), density=weights, eps=1e-9)
    x, y = (rng.standard_normal(shape) + 0j for shape in ((6, 8), (9,)))
    there, weighted = np.vdot(op.op(x), weights * y), np.vdot(op.op(x), y)
    back = np.vdot(x, op.adj_op(y))
    assert np.isclose(there, back) and not np.isclose(weighted, back)
    return "with `density`, `adj_op` is A^H W and `op` is A"


@row(
    SECTION,
    "torchkbnufft",
    guess='`norm="ortho"` divides by sqrt(N)',
    here="`interop.from_torchkbnufft(module, omega, norm=)`",
)
def torchkbnufft() -> str:
    import torchkbnufft

    module = torchkbnufft.KbNufft((32, 32), dtype=torch.complex128)
    x = torch.zeros(1, 1, 32, 32, dtype=torch.complex128)
    x[..., 16, 16] = 1
    value = module(x, torch.zeros(2, 1, dtype=torch.float64), norm="ortho").abs().item()
    assert round(1 / value) == 64
    omega = (
        torch.rand(2, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 6 - 3
    )
    y = module(x.roll(5, -1), omega)[0, 0]
    error = (y - torch.exp(-5j * omega[1])).abs().max().item()
    assert 1e-4 < error < 2e-3, error
    return "divides by the root of the oversampled grid, 64 for 32 x 32; errors of 1e-3 in double"


@row(
    SECTION,
    "pynufft",
    guess="the middle is N // 2; `adjoint` is the adjoint",
    here="`interop.from_pynufft(nufft)`",
)
def pynufft() -> str:
    import pynufft as library

    n, omega = 15, np.array([[0.7], [-1.1]])
    nufft = library.NUFFT()
    nufft.plan(omega, (n,), (2 * n,), (6,))
    value = nufft.forward(impulse(n))[0]
    assert abs(value - ramp(n, 0.7, n / 2)) < 1e-2, value
    back = nufft.adjoint(np.array([1, 0], np.complex64))[1] * 2 * n
    assert abs(back - np.conj(ramp(n, 0.7, n / 2))) < 1e-2, back
    return "the middle is N / 2, not rounded: half a pixel for odd N; `adjoint` is A^H / prod(Kd)"


@row(
    SECTION,
    "sigpy",
    guess="errors near single precision",
    here=f"`NUFFT(locs, ...)` with the same locations: {OURS}; `tol` bounds the error",
)
def sigpy() -> str:
    import sigpy as library

    rng = np.random.default_rng(0)
    locs = rng.uniform(-16, 16, (400, 1))
    x = rng.standard_normal(32) + 0j
    exact = np.exp(-2j * np.pi * locs * (np.arange(32) - 16) / 32) @ x / math.sqrt(32)
    error = np.linalg.norm(library.nufft(x, locs) - exact) / np.linalg.norm(exact)
    assert 1e-3 < error < 1e-2, error
    return "the same scale, unit, sign and middle as ours; the default error is 2e-3 to 7e-3"


@row(
    SECTION,
    "mrpro",
    guess="k counts cycles over the reconstructed image",
    here="`interop.from_mrpro`; `trajectories.convert(locs, 'mrpro', N, encoded_size=)`",
)
def mrpro() -> str:
    from mrpro.data import KTrajectory, SpatialDimension
    from mrpro.operators import FourierOp

    k = torch.tensor([0.3, 1.7, 2.2]).reshape(1, 1, 1, 1, 3)
    zero = torch.zeros(1, 1, 1, 1, 1)
    op = FourierOp(
        SpatialDimension(1, 1, 8), SpatialDimension(1, 1, 16), KTrajectory(zero, zero, k)
    )
    x = torch.zeros(1, 1, 1, 1, 8, dtype=torch.complex64)
    x[..., 5] = 1  # one after the middle
    value = op(x)[0].flatten()[1].item()
    assert abs(value - np.exp(-2j * np.pi * 1.7 / 16) / 4) < 1e-3, value
    return "k counts cycles over the encoded matrix, and the scale is 1 / sqrt(its size)"


@row(
    SECTION,
    "deepinv",
    guess="`RadioInterferometry(samples_loc=)` takes (N, 2), as its documentation says, and has an "
    "adjoint",
    here="`NUFFT` with `trajectories.convert(locs, 'torchkbnufft', N)`, times 1 / 2",
)
def radio() -> str:
    import deepinv

    locs = torch.tensor([[0.3, 0.9], [0.1, -0.4]])
    options = [
        deepinv.physics.RadioInterferometry((6, 8), locs, real_projection=real)
        for real in (True, False)
    ]
    x = torch.zeros(1, 1, 6, 8, dtype=torch.complex64)
    x[..., 3, 5] = 1  # one after the middle of the last axis
    y = options[1].A(x).flatten()
    assert torch.allclose(y.angle(), -locs[1], atol=3e-3), y.angle()
    assert torch.allclose(1 / y.abs(), torch.tensor(math.sqrt(4 * 48)), rtol=1e-2)
    kinds = [each.A_adjoint(y.reshape(1, 1, -1)).is_complex() for each in options]
    assert kinds == [False, True]
    return (
        "it takes (2, N), in radians per pixel, with 1 / sqrt(2^D N) as mri-nufft; by default the "
        "adjoint is real, which is the adjoint for real images only"
    )


@row(
    SECTION,
    "deepinv",
    guess="`NonCartesianMRI` is unitary in scale, as its `MRI`",
    here="`interop.from_mrinufft(physics.nufft_op)`",
)
def non_cartesian() -> str:
    import deepinv

    physics = deepinv.physics.NonCartesianMRI((6, 8), num_shots=7, num_samples_per_shot=8)
    x = torch.zeros(1, 2, 6, 8)
    x[0, 0, 3, 5] = 1
    squares = physics.A(x).square().sum(1)
    assert torch.allclose(1 / squares, torch.tensor(4.0 * 48), rtol=1e-3)
    return (
        "it is mri-nufft: 1 / sqrt(2^D N); norm 1 only with `normalize=True`, the adjoint with it"
    )
