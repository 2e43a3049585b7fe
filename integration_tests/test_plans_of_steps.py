"""Plans of operators that work in steps: what is counted is what all steps take.

C coils, T frames, K points, Nx Ny image.
"""

from contextlib import nullcontext

import pytest
import torch

from linops_core import Convolution, Dense, NamedLinop
from linops_core._kernels._interpolation import _gridding
from linops_imaging import NUFFT, ConeBeam, FanBeam, ParallelBeam
from linops_imaging._non_uniform import _nufft, _oversampled_fft, _toeplitz
from linops_split import batch_linop, plan_batches
from linops_split._planning._peak import AllocationCount, peak_nbytes
from linops_split._planning._plan_trial import WORK_OPERATORS, Trial
from nameddim import ND

CPU = torch.device("cpu")
METHODS = {"table": "table", "no table": "interpolate", "toeplitz": "table"}


def sense(how: str) -> NamedLinop:
    """Return the operator of 5 coils and 5 frames with 7 points each."""
    locs = 3 * torch.rand(5, 7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    maps = torch.ones(5, 8, 6, dtype=torch.complex128)
    S = Dense(maps, ("C", "Nx", "Ny"), ("T", "Nx", "Ny"), ("T", "C", "Nx", "Ny"))
    batch, method, is_toeplitz = ("T", "C"), METHODS[how], how == "toeplitz"
    F = NUFFT(locs, (8, 6), ("T", "K"), batch_shape=batch, method=method, toeplitz=is_toeplitz)
    return F @ S


@pytest.mark.parametrize("how", ["table", "no table"])
def test_a_plan_says_by_which_method_a_nufft_works(how: str) -> None:
    A = Convolution(torch.ones(1, 1, dtype=torch.complex128)) @ sense(how).N
    plan = plan_batches(A, "1 GiB")
    assert plan.methods == (f"NUFFT by {METHODS[how]}",)
    assert str(plan).endswith(f" of 1.0 GiB on cpu, NUFFT by {METHODS[how]}")


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", [{}, {"T": 3}])
@pytest.mark.parametrize("work", WORK_OPERATORS)
@pytest.mark.parametrize("how", ["table", "no table", "toeplitz"])
def test_steps_are_counted_as_if_all_were_run(
    how: str, work: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_nufft, "_FRAMES", 3 * 2**13)
    monkeypatch.setattr(_nufft, "_STEP", 2**13)
    monkeypatch.setattr(_oversampled_fft, "_STEP", 2**11)
    monkeypatch.setattr(_toeplitz, "_STEP", 2**12)
    if how == "no table" and not sizes:
        monkeypatch.setattr(_gridding, "_STEP", 3)
    x, batches = torch.zeros(5, 8, 6, dtype=torch.complex128), {ND(d): n for d, n in sizes.items()}
    A, trial = sense(how), Trial(sense(how), x, CPU, [work], None)
    result = trial.peak(batches)
    assert trial.peak(batches) == result
    run = WORK_OPERATORS[work](batch_linop(A, batches))
    with torch.no_grad():
        given = torch.zeros_like(sense(how)(x)) if work == "adjoint" else x
        assert result == pytest.approx(peak_nbytes(lambda: run(given))[CPU], abs=8)
    monkeypatch.setattr("linops_split._planning._peak.choosing_steps", lambda choose: nullcontext())
    assert Trial(sense(how), x, CPU, [work], None).peak(batches) == result


def test_a_plan_keeps_nothing_in_the_operator() -> None:
    A, x = sense("toeplitz"), torch.zeros(5, 8, 6, dtype=torch.complex128)
    plan_batches(A, 2**30, work=("forward", "adjoint", "normal"))
    assert type(A(x)) is type(A.N(x)) is torch.Tensor


ANGLES = torch.arange(8) * torch.pi / 8
BEAMS: dict[str, NamedLinop] = {
    "views that are alike": ParallelBeam(ANGLES, 32, 32, batch_shape=("B",)),
    "others": ParallelBeam(ANGLES[:5], 20, (9, 16), batch_shape=("B",), detector_offset=0.5),
    "fan": FanBeam(2 * ANGLES, 32, 32, 99.0, 50.0, batch_shape=("B",)),
    "cone": ConeBeam(2 * ANGLES, (8, 8), (8, 8, 8), 60.0, 30.0, batch_shape=("B",)),
}


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", [{}, {"A": 3}])
@pytest.mark.parametrize("work", WORK_OPERATORS)
@pytest.mark.parametrize("n_images", [1, 4, 20])
@pytest.mark.parametrize("beam", BEAMS)
def test_plans_of_x_rays_count_what_is_run(
    beam: str, n_images: int, work: str, sizes: dict[str, int]
) -> None:
    A = batch_linop(BEAMS[beam], sizes)
    x = torch.zeros([n_images, *(BEAMS[beam].size(dim) or 0 for dim in A.ishape[1:])])
    plan = plan_batches(A, "1 GiB", like=x, work=work)
    y = torch.zeros_like(A(x)) if work == "adjoint" else x
    with torch.no_grad(), AllocationCount() as count:
        WORK_OPERATORS[work](A)(y)
    # Which rays cross which rows or planes is not known for tiles, nor for volumes.
    highest = 1.7 if beam == "cone" else 1.2 if sizes else 1
    assert 1 <= plan.peak / count.peaks[CPU] <= highest
