"""Operators that PyLops has too: differences but, for some, at the ends; convolutions and moves."""

from typing import Any

import numpy as np
import pytest
import torch

from linops_core import (
    Convolution,
    Flip,
    FourierShift,
    Interpolate,
    NamedLinop,
    PadDim,
    Roll,
    Slice,
)
from linops_imaging import FiniteDifference, Gradient, Laplacian

pylops = pytest.importorskip("pylops")
SIZES = (6, 5, 4)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("scheme", ["forward", "backward", "central"])
def test_differences_along_an_axis(scheme: str, axis: int) -> None:
    x = np.random.default_rng(0).standard_normal(SIZES)
    kind = {"central": "centered"}.get(scheme, scheme)
    theirs = pylops.FirstDerivative(SIZES, axis=axis, kind=kind, edge=False)
    names = ("A", "B", "C")
    ours = FiniteDifference(names[axis], SIZES[axis], scheme, "replicate", shape=names)
    result, expected = ours(torch.from_numpy(x)).numpy(), theirs @ x
    if scheme == "central":  # PyLops has zeros at both ends
        inside = [slice(None)] * 3
        inside[axis] = slice(1, -1)
        result, expected = result[tuple(inside)], expected[tuple(inside)]
    np.testing.assert_allclose(result, expected, atol=1e-14)


@pytest.mark.parametrize("scheme", ["forward", "backward"])
def test_the_gradient_and_its_adjoint(scheme: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(SIZES), rng.standard_normal((3, *SIZES))
    theirs = pylops.Gradient(SIZES, kind=scheme, edge=False)
    ours = Gradient(("A", "B", "C"), SIZES, scheme=scheme, boundary="replicate")
    np.testing.assert_allclose(ours(torch.from_numpy(x)).numpy(), theirs @ x, atol=1e-14)
    np.testing.assert_allclose(ours.H(torch.from_numpy(y)).numpy(), theirs.H @ y, atol=1e-14)


def test_the_laplacian_inside_of_the_grid() -> None:
    x = np.random.default_rng(0).standard_normal(SIZES)
    theirs = pylops.Laplacian(
        SIZES, axes=(0, 1, 2), weights=(1, 1, 1), sampling=(1, 1, 1), edge=False
    )
    ours = Laplacian(("A", "B", "C"), SIZES)
    inside = (slice(1, -1),) * 3
    result = ours(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(result[inside], (theirs @ x)[inside], atol=1e-14)


def agree(ours: NamedLinop, theirs: Any) -> None:
    """Check both ways of an operator from one array to another."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(theirs.dims), rng.standard_normal(theirs.dimsd)
    result, back = ours(torch.from_numpy(x)), ours.H(torch.from_numpy(y))
    np.testing.assert_allclose(result.numpy(), theirs @ x, atol=1e-12)
    np.testing.assert_allclose(back.numpy(), (theirs.H @ y.ravel()).reshape(x.shape), atol=1e-12)


@pytest.mark.parametrize("n_taps", [1, 3, 4])
def test_convolutions_with_an_offset(n_taps: int) -> None:
    kernel = np.random.default_rng(1).standard_normal((n_taps, 3))
    for offset in range(n_taps):
        A = Convolution(torch.from_numpy(kernel[:, 0].copy()), offset=[offset])
        agree(A, pylops.signalprocessing.Convolve1D((4, 9), kernel[:, 0], offset, axis=-1))
        B = Convolution(torch.from_numpy(kernel), offset=[offset, 2])
        agree(B, pylops.signalprocessing.Convolve2D((7, 9), kernel, (offset, 2)))


def test_what_moves_elements() -> None:
    names = ("A", "B", "C")
    agree(Flip(("B",), shape=names), pylops.Flip(SIZES, axis=1))
    agree(Roll(("B",), [2], shape=names), pylops.Roll(SIZES, axis=1, shift=2))
    agree(Slice({"B": slice(1, 5, 2)}, [5], shape=names), pylops.Restriction(SIZES, [1, 3], axis=1))
    agree(PadDim("C", 4, 7, names, names, before=2), pylops.Pad(SIZES, ((0, 0), (0, 0), (2, 1))))


def test_shifts_by_fractions_of_an_odd_number_of_points() -> None:
    x = np.random.default_rng(0).standard_normal((3, 9))
    theirs = pylops.signalprocessing.Shift((3, 9), 1.3, axis=1)
    result = FourierShift(("N",), [1.3])(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(result.imag, 0, atol=1e-14)
    np.testing.assert_allclose(result.real, theirs @ x, atol=1e-12)


def test_bilinear_interpolation() -> None:
    at = np.random.default_rng(0).uniform(0, [6, 8], size=(20, 2))
    theirs = pylops.signalprocessing.Bilinear(at.T, (7, 9))
    ours = Interpolate(torch.from_numpy(at), [7, 9], width=2, kernel="linear", pad_mode="zeros")
    agree(ours, theirs)
