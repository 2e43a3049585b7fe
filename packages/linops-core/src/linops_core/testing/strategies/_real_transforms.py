"""Strategies for transforms of real signals and by real matrices, along dimensions anywhere."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass

from hypothesis import strategies as st

from ... import DCT, RealFFT
from .._real_matrices import real_matrix
from ._known import Known, leaf, matrix_of
from ._spaces import Index, Spaces


@dataclass(frozen=True)
class Along:
    """Spaces between which some dimensions, anywhere in them, are transformed."""

    where: Spaces
    dims: tuple[str, ...]
    """The transformed dimensions; the last one may change its length."""
    result: tuple[str, ...]


def places_of_transforms(where: Spaces) -> list[Along]:
    """Return the ways to transform one or two dimensions; the others are on both sides alike."""
    found = []
    n = len(where.ishape)
    for axes in [(i,) for i in range(n)] + [(i, j) for i in range(n) for j in range(n) if i != j]:
        others = [i for i in range(n) if i not in axes]
        if len(where.oshape) != n or any(where.ishape[i] != where.oshape[i] for i in others):
            continue
        dims, result = (tuple(side[i] for i in axes) for side in (where.ishape, where.oshape))
        if all(where.sizes[d] == where.sizes[r] for d, r in zip(dims[:-1], result, strict=False)):
            found.append(Along(where, dims, result))
    return found


def ways_of_half_spectra(where: Spaces) -> list[Along]:
    """Return the ways in which half of the last dimension is kept."""
    return [
        way
        for way in places_of_transforms(where)
        if where.sizes[way.result[-1]] == where.sizes[way.dims[-1]] // 2 + 1
    ]


def ways_of_same_lengths(where: Spaces) -> list[Along]:
    """Return the ways in which all dimensions keep their lengths."""
    return [
        way
        for way in places_of_transforms(where)
        if where.sizes[way.result[-1]] == where.sizes[way.dims[-1]]
    ]


def others_are_equal(way: Along, o: Index, i: Index) -> bool:
    """Whether two indices are the same along the dimensions that are not transformed."""
    return all(o[dim] == i[dim] for dim in way.where.ishape if dim not in way.dims)


@leaf(ways_of_half_spectra)
def half_spectra(draw: st.DrawFn, way: Along) -> Known:
    """RealFFT with every norm, centred or not."""
    where, sizes = way.where, way.where.sizes
    norm = draw(st.sampled_from(["ortho", "backward", "forward"]))
    centered, size = draw(st.booleans()), sizes[way.dims[-1]]
    linop = RealFFT(way.dims, size, norm, centered, shape=where.ishape, to=way.result)
    points = math.prod(where.lengths(way.dims))
    scale = {"ortho": points**-0.5, "backward": 1.0, "forward": 1 / points}[norm]

    def entry(o: Index, i: Index) -> complex:
        value = complex(scale * others_are_equal(way, o, i))
        for here, there in zip(way.dims, way.result, strict=True):
            n = sizes[here]
            centre = n // 2 if centered else 0
            first = 0 if here == way.dims[-1] else centre
            value *= cmath.exp(-2j * math.pi * (i[here] - centre) * (o[there] - first) / n)
        return value

    half = matrix_of(entry, where) / 2  # of x and of conj(x), which makes it that of Re x
    opaque = frozenset({*way.dims, *way.result})
    return Known(linop, real_matrix(half, half), where, opaque)


@leaf(ways_of_same_lengths)
def cosine_transforms(draw: st.DrawFn, way: Along) -> Known:
    """DCT along some dimensions."""
    linop = DCT(way.dims, way.where.ishape, way.result)

    def entry(o: Index, i: Index) -> complex:
        value = float(others_are_equal(way, o, i))
        for here, there in zip(way.dims, way.result, strict=True):
            n, k = way.where.sizes[here], o[there]
            scale = math.sqrt((2 if k else 1) / n)
            value *= scale * math.cos(math.pi * (2 * i[here] + 1) * k / (2 * n))
        return value

    opaque = frozenset({*way.dims, *way.result})
    return Known(linop, matrix_of(entry, way.where), way.where, opaque)
