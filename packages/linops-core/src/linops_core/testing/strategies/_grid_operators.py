"""Strategies for operators on grids: transforms, samplings, pads, convolutions, interpolation."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Mapping
from itertools import product

import torch
from hypothesis import strategies as st

from ... import FFT, Convolution, Crop, Interpolate, PadLast, Sampling
from ._known import Known, generators, leaf, matrix_of, matrix_of_picks, tensors
from ._spaces import Index, Spaces, grids_of, hidden, renamed, same_lengths


@leaf(same_lengths)
def transforms(draw: st.DrawFn, grids: Spaces) -> Known:
    """FFT with every norm, centred or not, the grid renamed or not."""
    image, kspace = grids.grid, grids.result
    norm = draw(st.sampled_from(["ortho", "backward", "forward"]))
    centered = draw(st.booleans())
    linop = FFT(len(image), hidden(draw, grids.batch), (image, kspace), norm, centered)
    points = math.prod(grids.lengths(image))
    scale = {"ortho": points**-0.5, "backward": 1.0, "forward": 1 / points}[norm]

    def entry(o: Index, i: Index) -> complex:
        value = complex(scale)
        for old, new in zip(image, kspace, strict=True):
            size = grids.sizes[old]
            centre = size // 2 if centered else 0
            value *= cmath.exp(-2j * math.pi * (i[old] - centre) * (o[new] - centre) / size)
        return value

    return Known(linop, matrix_of(entry, grids), grids, frozenset({*image, *kspace}))


@leaf(renamed)
def samplings(draw: st.DrawFn, grids: Spaces) -> Known:
    """Sampling, points repeated or left out, indices of any number of dimensions."""
    counts, generator = grids.lengths(grids.result), draw(generators())
    idx = [torch.randint(size, counts, generator=generator) for size in grids.lengths(grids.grid)]
    if draw(st.booleans()):
        idx = [indices.to(torch.uint8) for indices in idx]
    lengths, batch = grids.lengths(grids.grid), hidden(draw, grids.batch)
    linop = Sampling(idx, lengths, grids.result, grids.grid, batch)
    matrix = matrix_of_picks(grids, lambda x: x[tuple(indices.long() for indices in idx)])
    return Known(linop, matrix, grids, frozenset(grids.grid))


def kinds_of_pad(grids: Spaces) -> list[type[PadLast] | type[Crop]]:
    """Return PadLast if no axis is longer in the input, Crop if none is shorter."""
    if len(grids.grid) != len(grids.result):
        return []
    ilengths, olengths = grids.lengths(grids.grid), grids.lengths(grids.result)
    kinds = ((PadLast, operator.le), (Crop, operator.ge))
    return [kind for kind, fits in kinds if all(map(fits, ilengths, olengths))]


@leaf(lambda where: list(filter(kinds_of_pad, renamed(where))))
def centred_pads(draw: st.DrawFn, grids: Spaces) -> Known:
    """PadLast or Crop of some last dimensions, each with another name in the output."""
    before, after, batch = grids.grid, grids.result, hidden(draw, grids.batch)
    kind = draw(st.sampled_from(kinds_of_pad(grids)))
    linop = kind(grids.lengths(after), grids.lengths(before), before, after, batch)

    def entry(o: Index, i: Index) -> complex:
        point = [i[dim] - grids.sizes[dim] // 2 for dim in before]
        return point == [o[dim] - grids.sizes[dim] // 2 for dim in after]

    return Known(linop, matrix_of(entry, grids), grids)


def modes_of(grids: Spaces) -> list[str]:
    """Return the modes of a convolution between grids of these lengths."""
    if len(grids.grid) != len(grids.result):
        return []
    ilengths, olengths = grids.lengths(grids.grid), grids.lengths(grids.result)
    fits = {"same": operator.eq, "full": operator.le, "valid": operator.ge}
    return [mode for mode, compare in fits.items() if all(map(compare, ilengths, olengths))]


@leaf(lambda where: list(filter(modes_of, grids_of(where))))
def convolutions(draw: st.DrawFn, grids: Spaces) -> Known:
    """Convolution in every mode, with kernels of any size, some for each slice of a batch."""
    grid, result, sizes = grids.grid, grids.result, grids.lengths(grids.grid)
    kernel_dims = [dim for dim in draw(st.permutations(grids.batch)) if draw(st.booleans())]
    modes = modes_of(grids)
    mode = modes[0] if draw(st.booleans()) else draw(st.sampled_from(modes))
    padding, offset = "zeros", None
    if mode == "same":
        taps = [draw(st.integers(1, 4 if len(grid) < 3 else 2)) for _ in grid]
        padding = draw(st.sampled_from(["zeros", "circular", "reflect", "replicate"]))
        if draw(st.booleans()):
            offset = [draw(st.integers(0, n - 1)) for n in taps]
    else:
        taps = [abs(n - m) + 1 for n, m in zip(sizes, grids.lengths(result), strict=True)]
    kernel = draw(tensors([*grids.lengths(kernel_dims), *taps]))
    is_sized = draw(st.integers(0, 3)) > 0
    batch = hidden(draw, grids.batch, kernel_dims)
    method = draw(st.sampled_from(["auto", "direct", "fft"]))
    linop = Convolution(
        kernel, batch, grid, result, padding, kernel_batch_shape=kernel_dims, method=method,
        grid_size=sizes if is_sized else None, mode=mode, offset=offset,
    )  # fmt: skip
    opaque = {*grid} & {*result} if is_sized else {*grid, *result}
    centre = offset or [{"same": n // 2, "full": 0, "valid": n - 1}[mode] for n in taps]

    def entry(o: Index, i: Index) -> complex:
        total = 0j
        for tap in product(*map(range, taps)):
            at = [o[dim] - m + c for dim, m, c in zip(result, tap, centre, strict=True)]
            at = [beyond(n, size, padding) for n, size in zip(at, sizes, strict=True)]
            if at == [i[dim] for dim in grid]:
                total += complex(kernel[(*(o[dim] for dim in kernel_dims), *tap)].item())
        return total

    return Known(linop, matrix_of(entry, grids), grids, frozenset(opaque))


def beyond(n: int, size: int, padding: str) -> int:
    """Return the grid point whose value is at n, which may be outside of the grid; -1 for none."""
    if 0 <= n < size:
        return n
    if padding == "circular":
        return n % size
    if padding == "replicate" or (padding == "reflect" and size == 1):
        return min(max(n, 0), size - 1)
    return beyond(-n if n < 0 else 2 * size - 2 - n, size, padding) if padding == "reflect" else -1


KERNELS: list[tuple[str, dict[str, float] | None]] = [
    ("linear", None),
    *(("kaiser_bessel", {"beta": beta}) for beta in (3.0, 0.0)),
    *(("spline", {"order": order}) for order in (1.0, 2.0, 3.0)),
]


@leaf(renamed)
def interpolations(draw: st.DrawFn, grids: Spaces) -> Known:
    """Interpolate with every kernel, points on the grid, between its points and outside."""
    grid, points, sizes = grids.grid, grids.result, grids.lengths(grids.grid)
    lengths = [*grids.lengths(points), len(grid)]
    locs = torch.randint(-8, 33, lengths, generator=draw(generators())).double() / 8
    width = draw(st.sampled_from([1, 2.0, 2.5, 3, 4.0]))
    kernel, params = draw(st.sampled_from(KERNELS))
    norm, mode = draw(st.sampled_from([1, 2])), draw(st.sampled_from(["zeros", "circular"]))
    given = torch.nn.Parameter(locs.clone()) if draw(st.booleans()) else locs.clone()
    batch = hidden(draw, grids.batch)
    linop = Interpolate(given, sizes, batch, points, grid, width, kernel, norm, mode, params)

    def entry(o: Index, i: Index) -> complex:
        point = locs[tuple(o[dim] for dim in points)].tolist()
        rounds = range(-8, 9) if mode == "circular" else (0,)
        distances = [
            [t for k in rounds if (t := abs(i[dim] + k * size - at) / (width / 2)) < 1]
            for dim, size, at in zip(grid, sizes, point, strict=True)
        ]
        return math.fsum(
            kernel_value(kernel, math.hypot(*near), params)
            if norm == 2
            else math.prod(kernel_value(kernel, t, params) for t in near)
            for near in product(*distances)
        )

    return Known(linop, matrix_of(entry, grids), grids)


def kernel_value(name: str, t: float, params: Mapping[str, float] | None) -> float:
    """Return the kernel of that name at the distance t, in units of half its width."""
    if t >= 1:
        return 0.0
    if name == "kaiser_bessel":
        quarter = ((params or {})["beta"] / 2) ** 2 * (1 - t * t)
        return math.fsum(quarter**k / math.factorial(k) ** 2 for k in range(40))
    # The B-spline as the n-th difference of truncated powers.
    n = int((params or {}).get("order", 1)) + 1
    x = (t + 1) * n / 2
    terms = ((-1) ** k * math.comb(n, k) * max(x - k, 0.0) ** (n - 1) for k in range(n + 1))
    return math.fsum(terms) / math.factorial(n - 1)
