"""Strategies for operators on grids: blocks, convolutions, interpolation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import torch
from hypothesis import strategies as st

from ... import ArrayToBlocks, BlocksToArray, Convolution, Interpolate
from ._known import Index, Known, matrix_of, tensors
from ._spaces import Spaces, hidden, sides_of_a_leaf


@st.composite
def blocks(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """ArrayToBlocks and BlocksToArray: blocks that overlap or do not, with masks or without."""
    if where is None:
        known = draw(_blocks_of_arrays())
        where = known.spaces
        return known if draw(st.booleans()) else _reversed(known)
    if not strides_between(where):
        return _reversed(draw(blocks(where.reverse)))
    n_batch, strides = draw(st.sampled_from(strides_between(where)))
    ndim = len(strides)
    batch, array, inner = where.ishape[:n_batch], where.ishape[n_batch:], where.oshape[n_batch:]
    linop = ArrayToBlocks(
        where.lengths(array),
        where.lengths(inner[ndim:]),
        strides,
        None,
        hidden(draw, batch, ()),
        array,
        inner,
    )

    def entry(o: Index, i: Index) -> complex:
        if any(o[dim] != i[dim] for dim in batch):
            return 0
        axes = zip(array, inner[:ndim], strides, inner[ndim:], strict=True)
        return all(i[dim] == o[block] * stride + o[at] for dim, block, stride, at in axes)

    return Known(linop, matrix_of(entry, where), where)


def strides_between(where: Spaces) -> list[tuple[int, tuple[int, ...]]]:
    """Return for how many batches, and with which strides, an array can have these blocks."""
    found = []
    for n_batch in range(len(where.ishape)):
        array, inner = where.ishape[n_batch:], where.oshape[n_batch:]
        ndim = len(array)
        if where.ishape[:n_batch] != where.oshape[:n_batch] or len(inner) != 2 * ndim:
            continue
        if set(array) & set(inner):
            continue
        sizes = (where.lengths(part) for part in (array, inner[:ndim], inner[ndim:]))
        options = [
            [
                stride
                for stride in range(1, size + 1)
                if length <= size and (size - length) // stride + 1 == count
            ]
            for size, count, length in zip(*sizes, strict=True)
        ]
        found += [(n_batch, strides) for strides in product(*options)]
    return found


@st.composite
def _blocks_of_arrays(draw: st.DrawFn) -> Known:
    ndim = draw(st.integers(1, 2))
    grid = [draw(st.integers(1, 5 if ndim == 1 else 3)) for _ in range(ndim)]
    block = [draw(st.integers(1, size)) for size in grid]
    strides = [draw(st.integers(1, 3)) for _ in range(ndim)]
    counts = [(n - m) // s + 1 for n, m, s in zip(grid, block, strides, strict=True)]
    firsts = list(product(*map(range, counts)))
    inside = list(product(*map(range, block)))
    of_block, of_element = list("QRS"[:ndim]), list("TUV"[:ndim])
    sizes = {"A": 2, **dict(zip("XYZ", grid, strict=False))}
    mask_of = draw(st.sampled_from([None, "blocks", "elements"]))
    mask = None
    if mask_of is not None:
        chosen = firsts if mask_of == "blocks" else inside
        keep = draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)).filter(any))
        mask = torch.tensor(keep).reshape(counts if mask_of == "blocks" else block)
        kept = [at for at, is_kept in zip(chosen, keep, strict=True) if is_kept]
        sizes["K"] = len(kept)
        if mask_of == "blocks":
            firsts, of_block = kept, ["K"]
        else:
            inside, of_element = kept, ["K"]
    sizes |= {} if mask_of == "blocks" else dict(zip(of_block, counts, strict=True))
    sizes |= {} if mask_of == "elements" else dict(zip(of_element, block, strict=True))
    array, batch = tuple("XYZ"[:ndim]), draw(st.sampled_from([(), ("A",)]))
    where = Spaces((*batch, *array), (*batch, *of_block, *of_element), sizes)
    linop = ArrayToBlocks(
        grid, block, strides, mask, hidden(draw, batch, ()), array, where.oshape[len(batch) :],
        mask_of=mask_of,
    )  # fmt: skip

    def chosen_at(o: Index, dims: Sequence[str], lengths: Sequence[int]) -> int:
        return o["K"] if dims == ["K"] else _flat([o[dim] for dim in dims], lengths)

    def entry(o: Index, i: Index) -> complex:
        first = firsts[chosen_at(o, of_block, counts)]
        at = inside[chosen_at(o, of_element, block)]
        place = [f * s + a for f, s, a in zip(first, strides, at, strict=True)]
        same_batch = all(o[dim] == i[dim] for dim in batch)
        return same_batch and [i[dim] for dim in array] == place

    return Known(linop, matrix_of(entry, where), where)


def _reversed(known: Known) -> Known:
    """Return BlocksToArray of the same parameters as an ArrayToBlocks."""
    A = known.linop
    assert isinstance(A, ArrayToBlocks)
    counts, strides, lengths = ([axis[at] for axis in A.axes] for at in (2, 3, 4))
    mask = None
    if A.mask_of is not None:
        shape = counts if A.mask_of == "blocks" else lengths
        mask = torch.zeros(math.prod(shape), dtype=torch.bool)
        mask = mask.index_fill(0, A.kept, True).reshape(shape)
    names = (A.shape.other_shapes[key] for key in ("batch_shape", "blocks_shape", "array_shape"))
    linop = BlocksToArray(A.grid_size, lengths, strides, mask, *names, mask_of=A.mask_of)
    return Known(linop, known.matrix.mH.clone(), known.spaces.reverse, known.opaque)


def _flat(index: Sequence[int], lengths: Sequence[int]) -> int:
    position = 0
    for at, length in zip(index, lengths, strict=True):
        position = position * length + at
    return position


@st.composite
def convolutions(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Convolution with kernels of any size, some for each slice of a batch."""
    where = where or draw(_same_grids())
    n_grid = draw(st.sampled_from([n for n in convolved(where) if n <= 3]))
    batch, here, there = where.ishape[:-n_grid], where.ishape[-n_grid:], where.oshape[-n_grid:]
    own = [dim for dim in draw(st.permutations(batch)) if draw(st.booleans())]
    taps = [draw(st.integers(1, 4 if n_grid < 3 else 2)) for _ in range(n_grid)]
    kernel = draw(tensors([*where.lengths(tuple(own)), *taps]))
    mode = draw(st.sampled_from(["zeros", "circular"]))
    grid = where.lengths(here)
    is_sized = draw(st.integers(0, 3)) > 0
    linop = Convolution(
        kernel,
        hidden(draw, batch, own),
        here,
        there,
        mode,
        kernel_batch_shape=own,
        method=draw(st.sampled_from(["auto", "direct", "fft"])),
        grid_size=grid if is_sized else None,
    )
    opaque = {*here} & {*there} if is_sized else {*here, *there}

    def entry(o: Index, i: Index) -> complex:
        if any(o[dim] != i[dim] for dim in batch):
            return 0
        total = 0j
        for tap in product(*map(range, taps)):
            pairs = zip(there, tap, taps, strict=True)
            at = [o[dim] - m + size // 2 for dim, m, size in pairs]
            if mode == "circular":
                at = [n % size for n, size in zip(at, grid, strict=True)]
            if at == [i[dim] for dim in here]:
                total += complex(kernel[(*(o[dim] for dim in own), *tap)].item())
        return total

    return Known(linop, matrix_of(entry, where), where, frozenset(opaque))


def convolved(where: Spaces) -> list[int]:
    """Return for how many last dimensions there can be a convolution between two spaces."""
    if len(where.ishape) != len(where.oshape):
        return []
    if where.lengths(where.ishape) != where.lengths(where.oshape):
        return []
    return [n for n in range(1, len(where.ishape) + 1) if where.ishape[:-n] == where.oshape[:-n]]


@st.composite
def _same_grids(draw: st.DrawFn) -> Spaces:
    where = draw(sides_of_a_leaf(same=True).filter(lambda found: found.ishape != ()))
    n_grid = draw(st.integers(1, len(where.ishape)))
    new = dict(zip("XYZ", where.lengths(where.ishape[-n_grid:]), strict=False))
    return Spaces(where.ishape, (*where.ishape[:-n_grid], *new), {**where.sizes, **new})


@st.composite
def interpolations(draw: st.DrawFn, where: Spaces | None = None) -> Known:
    """Interpolate with every kernel, points on the grid, beside it and outside."""
    where = where or draw(sides_of_a_leaf().filter(lambda found: bool(gridded_batches(found))))
    n_batch = draw(st.sampled_from(gridded_batches(where)))
    batch, grid, points = where.ishape[:n_batch], where.ishape[n_batch:], where.oshape[n_batch:]
    sizes = where.lengths(grid)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    lengths = [*where.lengths(points), len(grid)]
    locs = torch.randint(-8, 33, lengths, generator=generator).double() / 8
    width = draw(st.sampled_from([1, 2.0, 2.5, 3, 4.0]))
    kernel, params = draw(
        st.sampled_from(
            [("linear", None), ("kaiser_bessel", {"beta": 3.0}), ("kaiser_bessel", {"beta": 0.0})]
        )
        | st.integers(1, 3).map(lambda order: ("spline", {"order": float(order)}))
    )
    norm, mode = draw(st.sampled_from([1, 2])), draw(st.sampled_from(["zeros", "circular"]))
    linop = Interpolate(
        torch.nn.Parameter(locs.clone()) if draw(st.booleans()) else locs.clone(),
        sizes,
        hidden(draw, batch, ()),
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
        if any(o[dim] != i[dim] for dim in batch):
            return 0
        point = locs[tuple(o[dim] for dim in points)].tolist()
        rounds = range(-8, 9) if mode == "circular" else (0,)
        images = [[i[d] + k * n for k in rounds] for d, n in zip(grid, sizes, strict=True)]
        near = [
            [n for n in at_axis if abs(n - at) <= width]
            for at_axis, at in zip(images, point, strict=True)
        ]
        return math.fsum(weight(point, node) for node in product(*near))

    return Known(linop, matrix_of(entry, where), where)


def gridded_batches(where: Spaces) -> list[int]:
    """Return how many first dimensions can be batches of an interpolation between two spaces."""
    return [
        n
        for n in range(len(where.ishape))
        if where.ishape[:n] == where.oshape[:n]
        and not set(where.ishape[n:]) & set(where.oshape[n:])
        and len(where.ishape) - n <= 3
    ]


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
