"""Richardson-Lucy: expectation maximisation for a convolution, with light from outside."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Convolution
from linops_solvers import Record, mlem, richardson_lucy

F64 = torch.float64
sizes = st.lists(st.tuples(st.integers(3, 5), st.integers(1, 3)), min_size=1, max_size=3)
PADDED = ["zeros", "circular", "reflect", "replicate"]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


@given(sizes, st.integers(0, 2**16), st.sampled_from(["extended", *PADDED]))
def test_it_is_mlem_of_a_convolution(
    lengths: list[tuple[int, int]], seed: int, boundary: str
) -> None:
    grid, taps = zip(*lengths, strict=True)
    psf, y = random(*taps, seed=seed) + 0.01, 10 * random(2, *grid, seed=seed + 1)
    result = richardson_lucy(y, psf, max_num_iters=3, background=0.1, boundary=boundary)
    if boundary == "extended":
        whole = mlem(Convolution(psf, mode="valid"), y, max_num_iters=3, background=0.1)
        for axis, (size, n) in enumerate(lengths, start=1):
            whole = whole.narrow(axis, n - 1 - n // 2, size)
    else:
        A = Convolution(psf, padding_mode=boundary)
        whole = mlem(A, y, max_num_iters=3, background=0.1)
    torch.testing.assert_close(result, whole)
    assert result.shape == y.shape and result.is_contiguous()


@given(st.integers(0, 2**16), st.integers(2, 4))
@settings(max_examples=settings().max_examples // 5)
def test_points_come_back_to_their_places(seed: int, taps: int) -> None:
    """Also for a psf of even size, whose centre is at ``size // 2``."""
    psf = random(taps, taps, seed=seed) * 0.1
    psf[taps // 2, taps // 2] += 1
    scene = torch.zeros(9, 8, dtype=F64)
    scene[3, 4], scene[6, 2] = 100.0, 50.0
    y = Convolution(psf)(scene)
    for boundary in ("extended", "zeros"):
        result = richardson_lucy(y, psf, max_num_iters=200, boundary=boundary)
        torch.testing.assert_close(result, scene, rtol=0.02, atol=1.0)


def test_light_from_outside_makes_no_false_edge() -> None:
    """A flat scene that goes on beyond the frame, in a frame."""
    psf = torch.ones(5, 5, dtype=F64) / 25
    y = torch.full((12, 12), 40.0, dtype=F64)
    flat = richardson_lucy(y, psf, max_num_iters=100)
    torch.testing.assert_close(flat, y)
    false = richardson_lucy(y, psf, max_num_iters=100, boundary="zeros")
    assert (false - y).abs().max() > 30


def test_independent_images_are_solved_side_by_side() -> None:
    psf, y = random(3, 3), 10 * random(3, 6, 5, seed=1)
    together = richardson_lucy(y, psf, y)
    torch.testing.assert_close(together[1], richardson_lucy(y[1], psf, y[1]))


def test_a_first_image_goes_on_beyond_the_frame_and_callbacks_see_the_frame() -> None:
    psf, y, record = random(3, 2), 10 * random(5, 4, seed=1), Record()
    x0 = random(5, 4, seed=2)
    result = richardson_lucy(y, psf, x0, 0, callback=record)
    assert torch.equal(result, x0) and record.last is not None
    assert torch.equal(record.last.x, x0)
    result = richardson_lucy(y, psf, x0, 3, callback=record)
    assert torch.equal(record.last.x, result) and "objective" in record.values


def test_the_sum_of_the_psf_is_the_unit() -> None:
    psf, y = random(3), 10 * random(8, seed=1)
    torch.testing.assert_close(2 * richardson_lucy(y, 2 * psf), richardson_lucy(y, psf))


def test_gradients_flow_to_the_psf_and_the_counts() -> None:
    psf, y, x0 = random(3) + 0.1, random(5, seed=1) + 0.1, random(5, seed=2) + 0.1
    inputs = [v.requires_grad_() for v in (psf, y, x0)]
    assert torch.autograd.gradcheck(lambda p, y, x: richardson_lucy(y, p, x, 3), inputs)


Y, PSF = torch.ones(4, 4), torch.ones(3, 3) / 9


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: richardson_lucy(Y, PSF - 0.2), ValueError, r"psf must be at least 0 and finite"),
        (lambda: richardson_lucy(Y, 0 * PSF), ValueError, r"psf must have a positive sum, got 0"),
        (lambda: richardson_lucy(Y, PSF[None]), ValueError, r"psf must have 1 to 2 axes, along"),
        (lambda: richardson_lucy(Y, PSF, boundary="valid"), ValueError, r"boundary must be one of"),
        (lambda: richardson_lucy(-Y, PSF), ValueError, r"richardson_lucy: y must be at least 0"),
        (lambda: richardson_lucy(Y, PSF, Y[1:]), ValueError, r"x0 must have the shape of y, \(4, "),
        (lambda: richardson_lucy(Y, 1j * PSF), TypeError, r"psf must be real, got torch.complex64"),
        (lambda: richardson_lucy(1j * Y, PSF), TypeError, r"richardson_lucy: y must be real"),
        (lambda: richardson_lucy(Y, PSF.long()), TypeError, r"richardson_lucy: psf must"),
    ],
)
def test_what_is_no_blurred_image_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
