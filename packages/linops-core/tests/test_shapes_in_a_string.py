"""Shapes that are written in one string, wherever a shape is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from linops_core import (
    FFT,
    ArrayToBlocks,
    Convolution,
    Dense,
    Diagonal,
    Interpolate,
    NamedLinop,
    Pad,
    PadDim,
    Repeat,
    Sampling,
    SimpleLinop,
    SumReduce,
)
from nameddim import Dim

W = torch.rand(2, 3)
LOCS = torch.rand(4, 2)
IDX = (torch.tensor([0, 2]), torch.tensor([1, 1]))
Shapes = Callable[[str], Any]

MADE: list[Callable[[Shapes], NamedLinop]] = [
    lambda s: Diagonal(W, s("NxNy")),
    lambda s: Diagonal.from_weight(W, s("NxNy"), s("Nx...Ny")),
    lambda s: Dense(W, s("CoilNx"), s("Nx"), s("Coil")),
    lambda s: FFT(1, s("CoilNz"), (s("Nx"), s("Kx"))),
    lambda s: Sampling(IDX, (3, 2), s("Shot"), s("KxKy"), s("CoilNz")),
    lambda s: Interpolate(
        torch.rand(4, 2),
        (5, 5),
        grid_shape=s("KxKy"),
        locs_batch_shape=s("Shot"),
        batch_shape=s("Coil"),
    ),
    lambda s: Convolution(torch.rand(3), s("Coil"), s("Nx"), s("Mx")),
    lambda s: ArrayToBlocks([5], [2], [1], None, s("Coil"), s("Nx"), s("BxWx")),
    lambda s: Pad([6], [4], s("Nx"), s("Mx"), s("Coil")),
    lambda s: PadDim("Nx", 4, 6, s("CoilNx"), s("CoilMx")),
    lambda s: Repeat({"Coil": 2}, s("Nx"), s("CoilNx")),
    lambda s: SumReduce(s("CoilNx"), s("Nx")),
    lambda s: SimpleLinop(lambda x: x, lambda x: x, None, s("CoilNx")),
]


@pytest.mark.parametrize("make", MADE)
def test_a_string_is_the_dimensions_that_it_names(make: Callable[[Shapes], NamedLinop]) -> None:
    assert make(str).shape == make(Dim).shape


@pytest.mark.parametrize("make", MADE)
def test_a_set_has_no_order_and_is_refused(make: Callable[[Shapes], NamedLinop]) -> None:
    with pytest.raises(TypeError, match="dimensions must have an order, as in a tuple"):
        make(lambda text: {text[:1] or "N", "X"})
