"""Strategies for transforms of real signals and by real matrices, along dimensions anywhere."""

from __future__ import annotations

import cmath
import math
from dataclasses import replace

from hypothesis import strategies as st

from ... import DCT, RealFFT
from .._real_matrices import real_matrix
from ._known import Known, leaf
from ._moves import Moves, moves, of_same_lengths, placed
from ._spaces import Spaces


def of_half_spectra(where: Spaces) -> list[Moves]:
    """Return those in which half of the last dimension is kept, and all of the others."""
    return [
        one
        for one in moves(where)
        if one.lengths[-1][1] == one.lengths[-1][0] // 2 + 1
        and all(i == o for i, o in one.lengths[:-1])
    ]


@leaf(of_half_spectra)
def half_spectra(draw: st.DrawFn, one: Moves) -> Known:
    """RealFFT with every norm, centred or not."""
    sizes = [i for i, _ in one.lengths]
    norm = draw(st.sampled_from(["ortho", "backward", "forward"]))
    centered, last = draw(st.booleans()), len(sizes) - 1
    linop = RealFFT(one.old, sizes[last], norm, centered, **placed(draw, one))

    def factor(axis: int, o: int, i: int) -> complex:
        n = sizes[axis]
        centre = n // 2 if centered else 0
        first = 0 if axis == last else centre
        return cmath.exp(-2j * math.pi * (i - centre) * (o - first) / n)

    known = one.known(linop, factor, (*one.old, *one.new))
    scale = {"ortho": math.prod(sizes) ** -0.5, "backward": 1.0, "forward": 1 / math.prod(sizes)}
    half = known.matrix * scale[norm] / 2  # of x and of conj(x), which makes it that of Re x
    return replace(known, matrix=real_matrix(half, half))


@leaf(of_same_lengths)
def cosine_transforms(draw: st.DrawFn, one: Moves) -> Known:
    """DCT along some dimensions."""
    sizes = [i for i, _ in one.lengths]

    def factor(axis: int, o: int, i: int) -> complex:
        n = sizes[axis]
        scale = math.sqrt((2 if o else 1) / n)
        return scale * math.cos(math.pi * (2 * i + 1) * o / (2 * n))

    return one.known(DCT(one.old, **placed(draw, one)), factor, (*one.old, *one.new))
