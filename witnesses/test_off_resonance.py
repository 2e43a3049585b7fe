"""Off-resonance in other libraries: the sign of the field map and of R2*."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from linops_imaging import NUFFT
from linops_imaging.mri import TimeSegments

N, POINTS, SECONDS = 12, 150, 0.01
SEGMENTS = 8
RNG = np.random.default_rng(0)
LOCS = (RNG.random((POINTS, 2)) - 0.5) * N
FIELD = (60 + 20 * RNG.random((N, N))).astype(np.float32)
DECAY = (20 + 10 * RNG.random((N, N))).astype(np.float32)
TIMES = np.linspace(0, SECONDS, POINTS).astype(np.float32)
IMAGE = (RNG.standard_normal((N, N)) + 1j * RNG.standard_normal((N, N))).astype(np.complex64)


def ours(field: NDArray[np.float32], decay: NDArray[np.float32] | None = None) -> Tensor:
    F = NUFFT(torch.tensor(LOCS), (N, N), ("K",), tol=1e-5)
    r2_star = None if decay is None else torch.tensor(decay)
    A = TimeSegments(F, torch.tensor(field), torch.tensor(TIMES), SEGMENTS, r2_star=r2_star)
    return A(torch.tensor(IMAGE)).flatten()


def difference(result: NDArray[np.complex64], known: Tensor) -> float:
    """Return the relative difference up to a factor."""
    y = torch.as_tensor(np.asarray(result)).flatten().to(known.dtype)
    factor = torch.vdot(y, known) / torch.vdot(y, y)
    return float((factor * y - known).norm() / known.norm())


def test_mri_nufft_has_our_sign_and_the_other_sign_of_decay() -> None:
    mrinufft = pytest.importorskip("mrinufft")

    def theirs(decay: NDArray[np.float32] | None = None) -> NDArray[np.complex64]:
        locs = (LOCS * (2 * np.pi / N)).astype(np.float32)
        F = mrinufft.get_operator("finufft")(locs, (N, N), n_coils=1)
        A = mrinufft.operators.off_resonance.MRIFourierCorrected(
            F,
            b0_map=FIELD,
            readout_time=TIMES,
            r2star_map=decay,
            mask=np.ones((N, N), bool),
            interpolator={"name": "mti", "L": SEGMENTS},
        )
        result: NDArray[np.complex64] = A.op(IMAGE)
        return result

    assert difference(theirs(), ours(FIELD)) < 2e-3
    assert difference(theirs(), ours(-FIELD)) > 0.5
    # Its histogram of two maps has few bins of decay.
    assert difference(theirs(DECAY), ours(FIELD, -DECAY)) < 0.06
    assert difference(theirs(DECAY), ours(FIELD, DECAY)) > 0.1


def test_sigpy_has_the_other_sign() -> None:
    mri = pytest.importorskip("sigpy.mri")
    segments = {"b0": FIELD, "dt": 1000 * SECONDS / POINTS, "lseg": SEGMENTS, "n_bins": 40}
    A = mri.linop.Sense(np.ones((1, N, N), np.complex64), coord=LOCS, tseg=segments)
    assert difference(A(IMAGE), ours(-FIELD)) < 0.02
    assert difference(A(IMAGE), ours(FIELD)) > 0.5
