import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import NamedLinop, SplitError
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_imaging import FanBeam, ParallelBeam, fbp
from nameddim import ND


class TestParallelBeam(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        angles = torch.tensor([0.0, 0.4, 2.0], dtype=torch.float64)
        return ParallelBeam(angles, 4, (3, 2), 0.8, batch_shape=("Nz",))

    def sizes(self) -> Mapping[str, int]:
        return {"Nz": 2}


def matrix(
    angles: Tensor,
    n_detectors: int,
    sizes: tuple[int, int],
    spacing: float,
    offset: float,
    origin: tuple[float, float],
) -> Tensor:
    """Return the matrix of Joseph's method, entry by entry."""
    result = torch.zeros(len(angles), n_detectors, *sizes, dtype=torch.float64)
    n0, n1 = sizes
    for a, angle in enumerate(angles.tolist()):
        cosine, sine = math.cos(angle), math.sin(angle)
        for d in range(n_detectors):
            s = (d - (n_detectors - 1) / 2) * spacing + offset
            for i in range(n0):
                for j in range(n1):
                    x, y = i - origin[0], j - origin[1]
                    if abs(cosine) >= abs(sine):
                        away, length = (s - y * sine) / cosine - x, 1 / abs(cosine)
                    else:
                        away, length = (s - x * cosine) / sine - y, 1 / abs(sine)
                    result[a, d, i, j] = max(0.0, 1 - abs(away)) * length
    return result.flatten(2).flatten(0, 1)


exactly = st.sampled_from([0, math.pi / 4, math.pi / 2, 3 * math.pi / 4, math.pi, -math.pi / 4])


@given(
    st.lists(exactly | st.floats(-7, 7), min_size=1, max_size=3),
    st.integers(1, 6),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.sampled_from([1e-9, 0.02, 0.13, 0.5, 0.7, 1.0, 1.4, 2.5]),
    st.sampled_from([0.0, 0.25, -1.3]),
    st.none() | st.tuples(st.floats(-3, 6), st.floats(-3, 6)),
)
def test_it_and_its_adjoint_are_the_matrix(
    angles: list[float],
    n_detectors: int,
    sizes: tuple[int, int],
    spacing: float,
    offset: float,
    origin: tuple[float, float] | None,
) -> None:
    theta = torch.tensor(angles, dtype=torch.float64)
    A = ParallelBeam(theta, n_detectors, sizes, spacing, detector_offset=offset, origin=origin)
    middle = (sizes[0] - 1) / 2, (sizes[1] - 1) / 2
    expected = matrix(theta, n_detectors, sizes, spacing, offset, origin or middle)
    pixels = torch.eye(math.prod(sizes), dtype=torch.float64).view(-1, *sizes)
    rays = torch.eye(len(angles) * n_detectors, dtype=torch.float64)
    result = A(pixels).flatten(1).T
    back = A.H(rays.view(-1, len(angles), n_detectors)).flatten(1)
    torch.testing.assert_close(result, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(back, expected, atol=1e-12, rtol=0)


def test_integrals_of_a_disc_are_chords() -> None:
    radius, size = 40.0, 128
    at = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    inside = (at.square().unsqueeze(1) + at.square()).sqrt()
    disc = (radius + 0.5 - inside).clamp(0, 1)  # an edge of one pixel
    A = ParallelBeam(torch.tensor([0.0, 0.3, 1.1], dtype=torch.float64), 128, size)
    chords = 2 * (radius**2 - at.square()).clamp(min=0).sqrt()
    error = (A(disc) - chords).abs()
    assert error.mean() < 0.2 and error[:, at.abs() < 0.9 * radius].max() < 0.5


def test_the_adjoint_is_matched_in_single_precision() -> None:
    A = ParallelBeam(torch.rand(7) * math.pi, 40, (32, 24), batch_shape=())
    dottest(A, dtypes=[torch.float32, torch.complex64])


def test_gradients_are_the_adjoint() -> None:
    A = ParallelBeam(torch.tensor([0.1, 1.2], dtype=torch.float64), 4, (3, 3))
    x = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(A, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(A, x, fast_mode=True)


def test_gradients_reach_the_geometry() -> None:
    angles = torch.tensor([0.13, 1.21, 2.9], dtype=torch.float64, requires_grad=True)
    x = torch.randn(4, 3, dtype=torch.float64)
    y = torch.randn(3, 5, dtype=torch.complex128)
    numbers = (0.9, -0.3, [1.2, 1.7])
    lengths = [torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in numbers]

    def both(angles: Tensor, spacing: Tensor, c: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        A = ParallelBeam(angles, 5, (4, 3), spacing, detector_offset=c, origin=at)
        return A(x), A.H(y)

    assert torch.autograd.gradcheck(both, (angles, *lengths))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64, torch.int64])
@pytest.mark.parametrize(
    "beam", [ParallelBeam, partial(FanBeam, source_distance=9, detector_distance=0)]
)
def test_angles_do_not_decide_the_dtype(
    dtype: torch.dtype, beam: Callable[..., ParallelBeam | FanBeam]
) -> None:
    A = beam(nn.Parameter(torch.tensor([0.13, 1.21, 2.9], dtype=torch.float64)), 5, (4, 3))
    x = (9 * torch.rand(4, 3)).to(dtype)
    y, expected = A(x), torch.float32 if dtype is torch.int64 else dtype
    assert y.dtype == A.H(y).dtype == expected
    exact = A(x.to(torch.complex128))
    torch.testing.assert_close(
        y.to(exact.dtype), exact, rtol=10 * torch.finfo(expected).eps, atol=1e-5
    )
    y.abs().sum().backward()
    assert A.angles.grad is not None and A.angles.grad.dtype == torch.float64


def test_tiles_of_angles_are_rows_of_the_whole() -> None:
    A = ParallelBeam(torch.rand(5, dtype=torch.float64), 6, (4, 5), batch_shape=("Nz",))
    x = torch.randn(2, 4, 5, dtype=torch.float64)
    part = A.split(A, {ND("A"): slice(1, 4), ND("Nz"): slice(1, 2)})
    assert torch.equal(part(x[1:]), A(x)[1:, 1:4])
    for dim, reason in (("Nx", "a ray crosses the whole image"), ("D", "the rays of one angle")):
        with pytest.raises(SplitError, match=reason):
            A.split(A, {ND(dim): slice(0, 2)})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_finds_the_pixels(dtype: torch.dtype) -> None:
    angles = torch.tensor([0.0, 0.5, 2.0], dtype=dtype)
    x = torch.rand(200, 200).to(dtype)
    A, exact = ParallelBeam(angles, 200, 200), ParallelBeam(angles.double(), 200, 200)
    y = A(x)
    assert y.dtype == A.H(y).dtype == dtype
    accuracy = torch.finfo(dtype).eps
    torch.testing.assert_close(y.double(), exact(x.double()), rtol=accuracy, atol=1e-3)
    torch.testing.assert_close(A.H(y).double(), exact.H(y.double()), rtol=accuracy, atol=1e-3)


@pytest.mark.parametrize("spacing", [1e3, 1e30])
def test_the_adjoint_is_matched_where_few_rays_cross_the_image(spacing: float) -> None:
    angles = torch.tensor([0.3, 1.1, 2.5])
    dottest(ParallelBeam(angles, 255, (5, 4), spacing, batch_shape=()), dtypes=[torch.float32])
    dottest(ParallelBeam(angles.double(), 5, (5, 4), spacing, batch_shape=()))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_angle_that_is_not_finite_gives_nan(bad: float) -> None:
    A = ParallelBeam(torch.tensor([0.0, bad]), 3, (5, 4))
    assert A(torch.ones(5, 4)).isnan().all(1).tolist() == [False, True]
    assert A.H(torch.ones(2, 3)).isnan().all()


def test_sizes_may_be_of_any_integral_type() -> None:
    A = ParallelBeam(torch.zeros(2), np.int64(3), np.int64(4), np.float32(0.5))  # type: ignore[arg-type]
    assert A(torch.ones(4, 4)).shape == (2, 3) and type(A.size("D")) is int


def test_there_may_be_no_images() -> None:
    A = ParallelBeam(torch.zeros(2), 3, (5, 4))
    assert A(torch.ones(0, 5, 4)).shape == (0, 2, 3)
    assert A.N(torch.ones(0, 5, 4)).shape == (0, 5, 4)


def test_there_may_be_no_angles() -> None:
    A = ParallelBeam(torch.zeros(0), 3, (5, 4))
    assert A(torch.ones(2, 5, 4)).shape == (2, 0, 3)
    assert torch.equal(A.H(torch.ones(2, 0, 3)), torch.zeros(2, 5, 4))
    assert torch.equal(fbp(torch.ones(2, 0, 3), A), torch.zeros(2, 5, 4))


ANGLES = torch.zeros(2)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (([0.0], 3, 4), TypeError, "angles must be a tensor of real numbers, got <class 'list'>"),
        ((ANGLES.int(), 3, 4), TypeError, "angles must be a tensor of real numbers, got torch.int"),
        ((torch.zeros(2, 2), 3, 4), ValueError, r"one dimension, got shape \(2, 2\)"),
        ((ANGLES, 0, 4), ValueError, "n_detectors must be at least 1, got 0"),
        ((ANGLES, 3, (4, 4, 4)), ValueError, "grid_size must be 2 positive integers"),
        ((ANGLES, 3, 4, 0.0), ValueError, "detector_spacing must be positive and finite, got 0"),
        ((ANGLES, 3, 4, ANGLES), ValueError, r"detector_spacing must have the shape \(\), got"),
        ((ANGLES, 3, 4, ANGLES[0].int()), TypeError, "detector_spacing must be a tensor of real"),
        ((ANGLES, 3, 4, ANGLES[0]), ValueError, "detector_spacing must be positive and finite"),
        ((ANGLES, 3, 4, "1"), TypeError, "detector_spacing must be a real number, got '1'"),
        ((ANGLES, 2.0, 4), TypeError, "n_detectors must be an integer, got 2.0"),
        ((ANGLES, 3, 4, 1.0, ("Nx", "D")), ValueError, "other names than input_shape"),
        ((ANGLES, 3, 4, 1.0, ("A",)), ValueError, "output_shape must have 2 dimensions, got"),
        ((ANGLES, 3, 4, 1.0, ("A", "D"), ("...", "N")), ValueError, "input_shape must have 2"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[object, ...], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=f"ParallelBeam: .*{match}"):
        ParallelBeam(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("origin", "error", "match"),
    [
        ((1.0,), ValueError, r"origin must be 2 numbers, got \(1\.0,\)"),
        (torch.zeros(3), ValueError, r"origin must have the shape \(2,\), got \(3,\)"),
        ((1.0, math.nan), ValueError, "origin must be finite, got nan"),
    ],
)
def test_bad_origins_are_refused(origin: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=f"ParallelBeam: .*{match}"):
        ParallelBeam(ANGLES, 3, 4, origin=origin)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_fan", [False, True])
def test_a_geometry_of_tensors_is_that_of_numbers(is_fan: bool) -> None:
    numbers = 0.75, 0.5, (2.25, 1.0)
    angles = torch.tensor([0.1, 1.2, 2.0, 3.0])

    def beam_of(spacing: object, offset: object, origin: object) -> ParallelBeam | FanBeam:
        far = (20.0, 5.0) if is_fan else ()
        beam = FanBeam if is_fan else ParallelBeam
        lengths: Any = {"detector_spacing": spacing, "detector_offset": offset, "origin": origin}
        return beam(angles, 7, (5, 4), *far, **lengths)

    A = beam_of(*numbers)
    B = beam_of(*[nn.Parameter(torch.tensor(number, dtype=torch.float64)) for number in numbers])
    x = torch.rand(2, 5, 4)
    torch.testing.assert_close(B(x), A(x))
    part = B.split(B, {ND("A"): slice(1, 3)})
    torch.testing.assert_close(part(x), A(x)[:, 1:3])
    assert [*B.state_dict()] == ["detector_spacing", "detector_offset", "origin", "angles"]
    B(x).sum().backward()
    assert all(weight.grad is not None for weight in B.parameters())


def test_an_axis_of_rotation_beside_the_middle_is_an_offset() -> None:
    angles = torch.rand(5, dtype=torch.float64) * 7
    x = torch.rand(6, 6, dtype=torch.float64)
    whole = ParallelBeam(angles, 16, 6)
    part = ParallelBeam(angles, 13, 6, detector_offset=1.5)
    torch.testing.assert_close(part(x), whole(x)[:, 3:])
    moved = ParallelBeam(angles, 16, (9, 6), origin=(2.5, 2.5))
    torch.testing.assert_close(moved(torch.nn.functional.pad(x, (0, 0, 0, 3))), whole(x))


def test_angles_that_change_before_the_gradient_are_refused() -> None:
    angles, x = torch.tensor([0.1, 0.7]), torch.ones(4, 4, requires_grad=True)
    y = ParallelBeam(angles, 5, (4, 4))(x)
    angles += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
