"""Strategies for operators on grids: transforms, samplings, pads, convolutions, interpolation."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Mapping, Sequence
from itertools import product

import torch
from hypothesis import strategies as st

from ... import FFT, Convolution, Crop, Interpolate, PadLast, Sampling
from ._known import Known, generators, leaf, matrix_of, tensors
from ._spaces import Grids, Index, Spaces, grids_of, hidden


def same_lengths(where: Spaces) -> list[Grids]:
    """Return the ways of operators that keep the length of each axis."""
    is_same = where.lengths(where.ishape) == where.lengths(where.oshape)
    return grids_of(where) if is_same else []


@leaf(same_lengths)
def transforms(draw: st.DrawFn, grids: Grids) -> Known:
    """FFT with every norm, centred or not, the grid renamed or not."""
    image, kspace = grids.here, grids.there
    norm = draw(st.sampled_from(["ortho", "backward", "forward"]))
    centered = draw(st.booleans())
    linop = FFT(len(image), hidden(draw, grids.batch), (image, kspace), norm, centered)
    points = math.prod(grids.lengths(image))
    scale = {"ortho": points**-0.5, "backward": 1.0, "forward": 1 / points}[norm]

    def entry(o: Index, i: Index) -> complex:
        value: complex = scale * grids.same_batch(o, i)
        for here, there in zip(image, kspace, strict=True):
            size = grids.sizes[here]
            centre = size // 2 if centered else 0
            turns = (i[here] - centre) * (o[there] - centre) / size
            value *= cmath.exp(-2j * math.pi * turns)
        return value

    return Known(linop, matrix_of(entry, grids), grids, frozenset({*image, *kspace}))


def renamed(where: Spaces) -> list[Grids]:
    """Return the ways of operators from a grid to points with other names."""
    return [grids for grids in grids_of(where) if grids.is_renamed]


@leaf(renamed)
def samplings(draw: st.DrawFn, grids: Grids) -> Known:
    """Sampling, points repeated or left out, indices of any number of dimensions."""
    counts, generator = grids.lengths(grids.there), draw(generators())
    idx = [torch.randint(size, counts, generator=generator) for size in grids.lengths(grids.here)]
    if draw(st.booleans()):
        idx = [indices.to(torch.uint8) for indices in idx]
    lengths, batch = grids.lengths(grids.here), hidden(draw, grids.batch)
    linop = Sampling(idx, lengths, grids.there, grids.here, batch)

    def entry(o: Index, i: Index) -> complex:
        at = tuple(o[dim] for dim in grids.there)
        sampled = [int(indices[at]) for indices in idx]
        return grids.same_batch(o, i) and sampled == [i[dim] for dim in grids.here]

    return Known(linop, matrix_of(entry, grids), grids, frozenset(grids.here))


def padded(where: Spaces) -> list[tuple[Grids, type[PadLast] | type[Crop]]]:
    """Return the ways to other names in which every axis is longer, or every one shorter."""
    return [
        (grids, kind)
        for grids in renamed(where)
        for kind, fits in ((PadLast, operator.le), (Crop, operator.ge))
        if len(where.ishape) == len(where.oshape)
        and all(map(fits, grids.lengths(grids.here), grids.lengths(grids.there)))
    ]


@leaf(padded)
def centred_pads(draw: st.DrawFn, way: tuple[Grids, type[PadLast] | type[Crop]]) -> Known:
    """PadLast or Crop of some last dimensions, each with another name in the output."""
    grids, kind = way
    before, after = grids.here, grids.there
    batch = hidden(draw, grids.batch)
    linop = kind(grids.lengths(after), grids.lengths(before), before, after, batch)

    def entry(o: Index, i: Index) -> complex:
        here = [i[dim] - grids.sizes[dim] // 2 for dim in before]
        there = [o[dim] - grids.sizes[dim] // 2 for dim in after]
        return grids.same_batch(o, i) and here == there

    return Known(linop, matrix_of(entry, grids), grids)


@leaf(same_lengths)
def convolutions(draw: st.DrawFn, grids: Grids) -> Known:
    """Convolution with kernels of any size, some for each slice of a batch."""
    here, there, sizes = grids.here, grids.there, grids.lengths(grids.here)
    own = [dim for dim in draw(st.permutations(grids.batch)) if draw(st.booleans())]
    taps = [draw(st.integers(1, 4 if len(here) < 3 else 2)) for _ in here]
    kernel = draw(tensors([*grids.lengths(own), *taps]))
    mode = draw(st.sampled_from(["zeros", "circular"]))
    is_sized = draw(st.integers(0, 3)) > 0
    linop = Convolution(
        kernel,
        hidden(draw, grids.batch, own),
        here,
        there,
        mode,
        kernel_batch_shape=own,
        method=draw(st.sampled_from(["auto", "direct", "fft"])),
        grid_size=sizes if is_sized else None,
    )
    opaque = {*here} & {*there} if is_sized else {*here, *there}

    def entry(o: Index, i: Index) -> complex:
        if not grids.same_batch(o, i):
            return 0
        total = 0j
        for tap in product(*map(range, taps)):
            at = [o[dim] - m + n // 2 for dim, m, n in zip(there, tap, taps, strict=True)]
            if mode == "circular":
                at = [n % size for n, size in zip(at, sizes, strict=True)]
            if at == [i[dim] for dim in here]:
                total += complex(kernel[(*(o[dim] for dim in own), *tap)].item())
        return total

    return Known(linop, matrix_of(entry, grids), grids, frozenset(opaque))


KERNELS: list[tuple[str, dict[str, float] | None]] = [
    ("linear", None),
    *(("kaiser_bessel", {"beta": beta}) for beta in (3.0, 0.0)),
    *(("spline", {"order": order}) for order in (1.0, 2.0, 3.0)),
]


@leaf(renamed)
def interpolations(draw: st.DrawFn, grids: Grids) -> Known:
    """Interpolate with every kernel, points on the grid, beside it and outside."""
    grid, points, sizes = grids.here, grids.there, grids.lengths(grids.here)
    lengths = [*grids.lengths(points), len(grid)]
    locs = torch.randint(-8, 33, lengths, generator=draw(generators())).double() / 8
    width = draw(st.sampled_from([1, 2.0, 2.5, 3, 4.0]))
    kernel, params = draw(st.sampled_from(KERNELS))
    norm, mode = draw(st.sampled_from([1, 2])), draw(st.sampled_from(["zeros", "circular"]))
    linop = Interpolate(
        torch.nn.Parameter(locs.clone()) if draw(st.booleans()) else locs.clone(),
        sizes,
        hidden(draw, grids.batch),
        points,
        grid,
        width,
        kernel,
        norm,
        mode,
        params,
    )

    def weight(point: Sequence[float], node: Sequence[int]) -> float:
        t = [abs(n - at) / (width / 2) for n, at in zip(node, point, strict=True)]
        if norm == 2:
            return kernel_value(kernel, math.sqrt(sum(d * d for d in t)), params)
        return math.prod(kernel_value(kernel, distance, params) for distance in t)

    def entry(o: Index, i: Index) -> complex:
        if not grids.same_batch(o, i):
            return 0
        point = locs[tuple(o[dim] for dim in points)].tolist()
        rounds = range(-8, 9) if mode == "circular" else (0,)
        images = [[i[d] + k * n for k in rounds] for d, n in zip(grid, sizes, strict=True)]
        near = [
            [n for n in at_axis if abs(n - at) <= width]
            for at_axis, at in zip(images, point, strict=True)
        ]
        return math.fsum(weight(point, node) for node in product(*near))

    return Known(linop, matrix_of(entry, grids), grids)


def kernel_value(name: str, t: float, params: Mapping[str, float] | None) -> float:
    """Return the kernel of that name at the distance t, in units of half its width."""
    if t >= 1:
        return 0.0
    if name == "kaiser_bessel":
        quarter = ((params or {})["beta"] / 2) ** 2 * (1 - t * t)
        return math.fsum(quarter**k / math.factorial(k) ** 2 for k in range(40))
    order = int((params or {}).get("order", 1))
    # The B-spline as the (order + 1)-th difference of truncated powers.
    x = (t + 1) * (order + 1) / 2
    terms = (
        (-1) ** k * math.comb(order + 1, k) * max(x - k, 0.0) ** order for k in range(order + 2)
    )
    return math.fsum(terms) / math.factorial(order)
