"""Several specs, one after the other, for operators that use parts of dimensions inside.

Shapes: C coils, A to E and so on the dimension that is next in a chain.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    FFT,
    Add,
    ArrayToBlocks,
    BlocksToArray,
    Concat,
    Convolution,
    Crop,
    Dense,
    Diagonal,
    NamedLinop,
    PadLast,
    Sampling,
    SplitError,
)
from linops_multigpu import BatchSpec, create_batched_linop

Ends = tuple[NamedLinop, int]
"""An operator from (C, one dimension) to (C, another), and how long that is."""


def weight(*sizes: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(sizes, dtype=torch.complex128, generator=generator)


def crop(draw: st.DrawFn, here: str, there: str, size: int) -> Ends:
    length = draw(st.integers(1, size))
    return Crop([length], [size], (here,), (there,), ("C",)), length


def pad(draw: st.DrawFn, here: str, there: str, size: int) -> Ends:
    length = draw(st.integers(size, size + 3))
    return PadLast([length], [size], (here,), (there,), ("C",)), length


def convolution(draw: st.DrawFn, here: str, there: str, size: int) -> Ends:
    kernel = weight(draw(st.integers(1, min(3, size))))
    mode = draw(st.sampled_from(["zeros", "circular"]))
    return Convolution(kernel, ("C",), (here,), (there,), mode, grid_size=[size]), size


def blocks(draw: st.DrawFn, here: str, there: str, size: int) -> Ends:
    """Blocks and back: what is in several is summed."""
    length = draw(st.integers(1, min(3, size)))
    stride = draw(st.integers(1, length))
    of = [size], [length], [stride]
    cut = ArrayToBlocks(*of, None, ("C",), (here,), ("B" + there, "E" + there))
    back = BlocksToArray(*of, None, ("C",), ("B" + there, "E" + there), (there,))
    return back @ cut, size


def dense(draw: st.DrawFn, here: str, there: str, size: int) -> Ends:
    length = draw(st.integers(1, 4))
    return Dense(weight(length, size), (there, here), ("C", here), ("C", there)), length


def diagonal(draw: st.DrawFn, here: str, there: str, size: int) -> Ends:
    crop_, length = crop(draw, here, there, size)
    if draw(st.booleans()):
        return Diagonal(weight(3, length), ("C", there)) @ crop_, length
    return Diagonal(weight(1, length), ("C", there), broadcast_dims=["C"]) @ crop_, length


def sampling(draw: st.DrawFn, here: str, there: str, size: int) -> Ends:
    result = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
    return Sampling([torch.tensor(result)], [size], (there,), (here,), ("C",)), len(result)


def fourier(draw: st.DrawFn, here: str, there: str, size: int) -> Ends:
    return FFT(1, ("C",), [(here,), (there,)], centered=draw(st.booleans())), size


STEPS: list[Callable[[st.DrawFn, str, str, int], Ends]] = [
    crop,
    pad,
    convolution,
    blocks,
    dense,
    diagonal,
    sampling,
    fourier,
]


@st.composite
def operators(draw: st.DrawFn) -> tuple[NamedLinop, dict[str, int]]:
    """Draw a chain that begins with maps, or with a diagonal, and may have sums and blocks.

    With the lengths of the dimensions between its factors.
    """
    names = (f"K{number}" for number in count())
    here, size = next(names), draw(st.integers(2, 6))
    sizes = {"C": 3, here: size}
    if draw(st.booleans()):
        A: NamedLinop = Dense(weight(3, size), ("C", here), (here,), ("C", here))
    else:
        A = Diagonal(weight(3, size), ("C", here))
    for _ in range(draw(st.integers(1, 4))):
        there = next(names)
        step = draw(st.sampled_from(STEPS))
        following, length = step(draw, here, there, size)
        kind = draw(st.sampled_from(["chain", "chain", "chain", "add", "concat"]))
        if kind != "chain":
            other = Dense(weight(length, size), (there, here), ("C", here), ("C", there))
            lengths = [length, length]
            following = (
                Add(following, other)
                if kind == "add"
                else Concat(following, other, odim=there, osizes=lengths)
            )
            length = length if kind == "add" else sum(lengths)
        A = following @ A
        here, size = there, length
        sizes[here] = size
    return draw(st.sampled_from([A, A, A.H, A.N])), sizes


Case = tuple[NamedLinop, dict[str, int], list[BatchSpec]]


@st.composite
def nested(draw: st.DrawFn) -> Case:
    """Draw an operator, lengths, and two or three specs for dimensions outside and inside."""
    A, sizes = draw(operators())
    dims = st.sampled_from(sorted(A.dims, key=str))
    cuts = st.dictionaries(dims, st.integers(1, 4), min_size=1, max_size=2)
    return A, sizes, [BatchSpec(draw(cuts)) for _ in range(draw(st.integers(2, 3)))]


def cropped(size: int) -> NamedLinop:
    maps = Dense(weight(4, 6), ("C", "Ky"), ("Ky",), ("C", "Ky"))
    convolved = Convolution(weight(3), ("C",), ("Ky",), ("Ky1",), grid_size=[6])
    return Crop([size], [6], ("Ky1",), ("Kz",), ("C",)) @ convolved @ maps


def matrix(A: NamedLinop, sizes: dict[str, int]) -> Tensor:
    names = {*map(str, A.ishape)}
    return A.to_dense({dim: n for dim, n in sizes.items() if dim in names}, torch.complex128)


@settings(max_examples=settings().max_examples // 2)
@given(nested())
@example((cropped(4), {}, [BatchSpec({"C": 2}), BatchSpec({"Ky": 4})]))
@example((cropped(4), {}, [BatchSpec({"C": 2}), BatchSpec({"Ky1": 3})]))
@example((cropped(2), {}, [BatchSpec({"Kz": 1}), BatchSpec({"Ky1": 1}), BatchSpec({"Ky": 1})]))
def test_operators_that_use_parts_inside_equal_the_whole_or_are_refused(
    case: Case,
) -> None:
    A, sizes, specs = case
    unknown = {dim: n for dim, n in sizes.items() if dim in A.dims and A.size(dim) is None}
    try:
        B = create_batched_linop(A, specs, sizes=unknown)
    except SplitError as error:
        assert any(reason in str(error) for reason in REASONS), error
        return
    for result, wanted in ((B, A), (B.H, A.H), (B.N, A.N)):
        torch.testing.assert_close(matrix(result, sizes), matrix(wanted, sizes))


@pytest.mark.parametrize("devices", [None, ["meta", "cpu"], [["cpu", "cpu"], ["cpu", "meta"]]])
def test_a_dimension_that_some_tiles_have_inside_is_cut_there(devices: Any) -> None:
    first = Dense(weight(2, 3), ("M", "K")) @ Dense(weight(3, 4), ("K", "N"))
    A = Concat(first, Dense(weight(2, 4), ("M", "N")), odim="M")
    for specs in (
        [BatchSpec({"M": 2}), BatchSpec({"K": 1, "N": 2}, devices)],
        [BatchSpec({"M": 2}), BatchSpec({"N": 3}), BatchSpec({"N": 2, "K": 2}, devices)],
        [BatchSpec({"K": 1}), BatchSpec({"M": 2})],
    ):
        B = create_batched_linop(A, specs, "cpu")
        assert len(B.tiles.parts) > 2
        if devices is None:
            torch.testing.assert_close(matrix(B, {}), matrix(A, {}))
            torch.testing.assert_close(matrix(B.N, {}), matrix(A.N, {}))
    with pytest.raises(SplitError, match=r"the dimension to split must be one of .*, got Q"):
        create_batched_linop(A, [BatchSpec({"M": 2}), BatchSpec({"Q": 1})])


REASONS = ["cannot be split: "]
"""What a dimension may be refused for: the operator that has it says why."""
