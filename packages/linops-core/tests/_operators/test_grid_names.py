"""Laws of operators whose grid stands anywhere: the matrix is that of the grid alone, permuted."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from linops_core import (
    DCT,
    FFT,
    ArrayToBlocks,
    BlocksToArray,
    Convolution,
    Crop,
    Diagonal,
    GridNames,
    Interpolate,
    NamedLinop,
    PadLast,
    Sampling,
    SplitError,
)
from linops_core.testing.strategies import Known, Spaces, check
from nameddim import ND

GRID, RESULT = "GHIJ", "PQUV"
Both = tuple[Callable[[], NamedLinop], torch.Tensor]
Made = tuple[Callable[..., NamedLinop], list[int], list[int], set[str]]


@st.composite
def made(draw: st.DrawFn) -> Made:
    """Draw how an operator is made, the sizes of its grid and of what it becomes.

    Then which of the two sides cannot be cut.
    """
    ndim = draw(st.integers(1, 2))
    sizes = [draw(st.integers(2, 3)) for _ in range(ndim)]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    kinds = ["fft", "convolution", "sampling", "interpolate", "pad", "blocks", "dct"]
    kind = draw(st.sampled_from(kinds))
    if kind == "dct":
        return DCT, sizes, sizes, {"here", "there"}
    if kind == "fft":
        centered = draw(st.booleans())
        return lambda **k: FFT(centered=centered, **k), sizes, sizes, {"here", "there"}
    if kind == "convolution":
        kernel = torch.randn([2] * ndim, dtype=torch.complex128, generator=generator)
        mode = draw(st.sampled_from(["zeros", "circular"]))
        size = sizes if draw(st.booleans()) else None
        opaque = set() if size else {"here", "there"}
        return (
            lambda **k: Convolution(kernel, padding_mode=mode, grid_size=size, **k),
            sizes,
            sizes,
            opaque,
        )
    if kind == "sampling":
        counts = [2] * draw(st.integers(1, 2))
        idx = [torch.randint(n, counts, generator=generator) for n in sizes]
        return lambda **k: Sampling(idx, sizes, **k), sizes, counts, {"here"}
    if kind == "interpolate":
        locs = torch.rand(3, ndim, dtype=torch.float64, generator=generator)
        return lambda **k: Interpolate(locs, sizes, width=2, **k), sizes, [3], set()
    if kind == "pad":
        larger = [n + draw(st.integers(0, 2)) for n in sizes]
        if draw(st.booleans()):
            return lambda **k: PadLast(larger, sizes, **k), sizes, larger, set()
        return lambda **k: Crop(sizes, larger, **k), larger, sizes, set()
    blocks = [n - 1 for n in sizes] + [2] * ndim
    block = (sizes, [2] * ndim, [1] * ndim)
    if draw(st.booleans()):
        return lambda **k: ArrayToBlocks(*block, **k), sizes, blocks, set()
    return lambda **k: BlocksToArray(*block, **k), blocks, sizes, set()


@st.composite
def placed(draw: st.DrawFn) -> tuple[Known, Callable[..., NamedLinop]]:
    """Draw an operator whose grid stands anywhere, beside its matrix, and how to make it."""
    make, of_grid, of_result, opaque = draw(made())
    grid, result = [*GRID[: len(of_grid)]], [*RESULT[: len(of_result)]]
    batch = draw(st.sampled_from([(), ("C",), ("T", "C")]))
    names = draw(st.permutations([*batch, *grid]))
    if len(grid) == len(result):
        output = [result[grid.index(name)] if name in grid else name for name in names]
    else:
        at = min(names.index(name) for name in grid)
        rest = [name for name in names[at:] if name not in grid]
        output = [*names[:at], *result, *rest]
    sizes = {"C": 2, "T": 1, **dict(zip(grid, of_grid, strict=True))}
    sizes |= dict(zip(result, of_result, strict=True))
    alone = make(dims=grid, shape=grid, to=result)
    inside = torch.eye(math.prod(of_grid), dtype=torch.complex128).reshape(-1, *of_grid)
    columns = torch.stack([alone(x) for x in inside], -1).reshape(*of_result, *of_grid)
    whole = torch.eye(math.prod(sizes[b] for b in batch), dtype=torch.complex128)
    whole = whole.reshape([sizes[b] for b in (*batch, *batch)])
    both = torch.tensordot(whole, columns, 0)
    sides = [("o", b) for b in batch] + [("i", b) for b in batch]
    sides += [("o", r) for r in result] + [("i", g) for g in grid]
    order = [("o", name) for name in output] + [("i", name) for name in names]
    matrix = both.permute([sides.index(axis) for axis in order])
    matrix = matrix.reshape(math.prod(sizes[n] for n in output), -1)
    known = {*(grid if "here" in opaque else []), *(result if "there" in opaque else [])}
    linop = make(dims=grid, shape=names, to=result)
    where = Spaces(tuple(names), tuple(output), sizes)
    return Known(linop, matrix, where, frozenset(known)), make


@settings(max_examples=settings().max_examples // 3)
@given(placed())
def test_the_matrix_is_that_of_the_grid_with_the_batch_around_it(case: tuple[Known, Any]) -> None:
    check(case[0])


@given(placed())
def test_a_neighbour_says_where_the_grid_stands(case: tuple[Known, Any]) -> None:
    known, make = case
    names = tuple(map(ND, known.spaces.ishape))
    grid = [name for name in GRID if name in names]
    result = [name for name in RESULT if name in known.spaces.oshape]
    free = make(dims=grid, to=result)
    fitted = free.fitted_to(names)
    if fitted is None:  # it has that shape already
        fitted = free.resolved(ishape=names)
    lengths = known.spaces.lengths(known.spaces.ishape)
    x = torch.randn(lengths, dtype=torch.complex128)
    y = fitted(x)
    torch.testing.assert_close(y.flatten(), known.matrix @ x.flatten())
    torch.testing.assert_close(fitted.H(y).flatten(), known.matrix.mH @ y.flatten())
    back = free.H.fitted_to(tuple(map(ND, fitted.oshape))) or free.H.resolved(ishape=fitted.oshape)
    assert back.ishape == fitted.oshape


@given(placed(), st.integers(0, 2), st.integers(0, 6), st.integers(0, 6))
def test_normals_of_free_operators_return_the_order_of_a_neighbour(
    case: tuple[Known, Any], before: int, kind: int, how: int
) -> None:
    """With equal sizes, another order of the output would be no error but other values."""
    known, make = case
    names, sizes = known.spaces.ishape, known.spaces.sizes
    grid = [name for name in GRID if name in names]
    result = [name for name in RESULT if name in known.spaces.oshape]
    A, P = make(dims=grid, to=result), known.matrix
    w = torch.randn([sizes[name] for name in result], dtype=torch.complex128)
    W = Diagonal(w, ("...", *result))
    if before:
        A, P = W @ A, Diagonal.from_weight(w, result, known.spaces.oshape).to_dense(sizes) @ P
    if before == 2:
        A, P = A @ FFT(dims=grid), P @ FFT(dims=grid, shape=names).to_dense(sizes)
    N = P.mH @ P
    made: list[Both] = [
        (lambda: A.N, N),
        (lambda: A.N.N, N @ N),
        (lambda: A.N @ A.N, N @ N),
        (lambda: A.N.conj(), N.conj()),
        (lambda: A.N + 2 * A.N, 3 * N),
        (lambda: A.H @ A, N),
        (lambda: A.N.H, N),
    ]
    own, expected = made[kind]
    D = Diagonal(torch.randn([sizes[name] for name in names], dtype=torch.complex128), names)
    of_D = D.to_dense()
    sums: list[Both] = [
        (lambda: own() @ D, expected @ of_D),
        (lambda: D @ own(), of_D @ expected),
        (lambda: D.H @ own() @ D, of_D.mH @ expected @ of_D),
        (lambda: D.H @ (own() @ D), of_D.mH @ expected @ of_D),
        (lambda: own() + D, expected + of_D),
        (lambda: D + own(), expected + of_D),
        (lambda: 2j * own() @ D + D, 2j * expected @ of_D + of_D),
    ]
    whole, matrix = sums[how]
    try:
        linop = whole()
    except ValueError as error:
        assert before and "order" in str(error)  # W is not permuted
        return
    assert [dim.name for dim in linop.oshape] == [*names] and linop.is_endomorphism
    torch.testing.assert_close(linop.to_dense(sizes), matrix)
    torch.testing.assert_close(linop.N.to_dense(sizes), matrix.mH @ matrix)


@pytest.mark.parametrize(
    "A",
    [
        FFT(dims=("Nx", "Ny"), centered=True),
        FFT(dims=("Nx", "Ny"), norm="backward"),
        Convolution(torch.ones(3, 2), dims=("Nx", "Ny")),
        PadLast([4, 5], [3, 4], dims=("Nx", "Ny")),
        Sampling([torch.tensor([1]), torch.tensor([0])], [3, 4], dims=("Nx", "Ny")),
        ArrayToBlocks([3, 4], [2, 2], [1, 1], dims=("Nx", "Ny")),
    ],
)
def test_the_normal_keeps_the_names_of_the_grid(A: NamedLinop) -> None:
    assert A.N.ishape == A.N.oshape == ("...", "Nx", "Ny")
    x = torch.randn(2, 3, 4, dtype=torch.complex64)
    torch.testing.assert_close(A.N(x), A.H(A(x)))


def test_a_grid_that_keeps_its_names_cannot_be_cut_and_the_error_names_to() -> None:
    A = Convolution(torch.ones(3), dims="N", grid_size=[4])
    with pytest.raises(SplitError, match=r"N cannot be split: .* give to= other names"):
        A.split(A, {"N": slice(0, 2)})
    B = Convolution(torch.ones(3), dims="N", grid_size=[4], to="M")
    assert B.split(B, {"M": slice(0, 1)}).support("N") == slice(0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dims": ()}, r"dims must be different named dimensions of the input"),
        ({"dims": ("Nx", "Nx")}, r"dims must be different named dimensions"),
        ({"dims": "Nx", "shape": ("C", "Ny")}, r"dims must be different named .* \(C, Ny\)"),
        (
            {"dims": "Nx", "to": ("A", "B")},
            r"to must name the 1 dimensions of the output that \(Nx",
        ),
        ({"dims": "Nx", "shape": "CNx", "to": "C"}, r"to must name .* got \('C',\) for an input"),
        ({"dims": "Nx", "to": ("...",)}, r"to must name the 1 dimensions"),
        ({"to": "Kx"}, r"to= must come with dims="),
        ({"shape": "CNx"}, r"shape= must come with dims="),
        ({"dims": "Nx", "ndim": 1}, r"ndim must not come with dims=, got 1"),
    ],
)
def test_names_that_do_not_go_together_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"FFT: {message}"):
        FFT(**arguments)


def test_as_many_dimensions_must_be_named_as_the_operator_acts_on() -> None:
    with pytest.raises(ValueError, match=r"Convolution: dims must be 2 dimensions, got \('Nx',\)"):
        Convolution(torch.ones(3, 3), dims="Nx")


def test_the_names_say_which_dimensions_stay() -> None:
    names = GridNames.along("FFT", "NxNy", ("Ny", "C", "Nx"), ("Kx", "Ky"))
    assert names.output == ("Ky", "C", "Kx") and names.batch == ("C",) and not names.is_free
