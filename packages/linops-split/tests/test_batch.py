"""The law: an operator is cut into tiles that make up the whole, or it is said why not.

Random operators come with matrices that are built without them, and with the dimensions for which
there is a reason why they cannot be sliced.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import (
    FFT,
    Add,
    Chain,
    Concat,
    Convolution,
    Dense,
    Diagonal,
    NamedLinop,
    PadDim,
    RealPart,
    Scalar,
    SimpleLinop,
    Slice,
    SplitError,
    Stack,
    Zero,
)
from linops_core.testing.strategies import Known, trees
from linops_split import Tiled, assemble, batch_linop, split_linop
from linops_split.testing import (
    assert_tiles_make_the_whole,
    batch_sizes,
    cuttable_dims,
)
from nameddim import ND, NamedDimension


@given(st.data())
def test_the_tiles_of_any_operator_make_the_whole(data: st.DataObject) -> None:
    known = data.draw(trees())
    assert_tiles_make_the_whole(
        known.linop, data.draw(batch_sizes(known.linop)), known.spaces.sizes
    )


def some_batch_sizes(linop: NamedLinop) -> st.SearchStrategy[dict[NamedDimension, int]]:
    """Batch sizes for any dimensions: also for those that cannot be cut, or are not there."""
    dims = st.sampled_from([*sorted(linop.dims, key=str), ND("Q")])
    return st.dictionaries(dims, st.integers(1, 4), max_size=3)


@given(st.data())
def test_what_is_not_refused_equals_the_matrix(data: st.DataObject) -> None:
    known = data.draw(trees())
    linop, sizes = known.linop, data.draw(some_batch_sizes(known.linop))
    try:
        batched = batch_linop(linop, sizes)
    except SplitError as error:
        assert str(error).startswith(f"{linop.signature}: ")
        assert any(cannot_be_cut(known, dim) and str(dim) in str(error) for dim in sizes)
    else:
        result = known.dense(batched, known.spaces.sizes)
        torch.testing.assert_close(result, known.matrix)


def cannot_be_cut(known: Known, dim: NamedDimension) -> bool:
    linop = known.linop
    return dim not in linop.dims or dim.name in known.opaque or linop.size(dim) is None


@given(st.data())
def test_tiles_can_be_cut_again(data: st.DataObject) -> None:
    known = data.draw(trees())
    once = batch_linop(known.linop, data.draw(batch_sizes(known.linop)))
    twice = batch_linop(once, data.draw(batch_sizes(once)))
    sizes = known.spaces.sizes
    torch.testing.assert_close(known.dense(twice, sizes), known.matrix)
    torch.testing.assert_close(known.dense(twice.H, sizes), known.matrix.mH)
    torch.testing.assert_close(known.dense(twice.N, sizes), known.matrix.mH @ known.matrix)


@given(st.data())
def test_adjoints_and_normals_of_tiles_can_be_cut(data: st.DataObject) -> None:
    known = data.draw(trees(depth=1))
    once = batch_linop(known.linop, data.draw(batch_sizes(known.linop)))
    for linop in (once.H, once.N):
        assert_tiles_make_the_whole(linop, data.draw(batch_sizes(linop)), known.spaces.sizes)


def narrowing(kind: str, here: str, there: str, size: int, start: int) -> NamedLinop:
    """Return an operator on a grid of which a tile uses only a part, or a dense one."""
    if kind == "blur":
        kernel = torch.rand(2, dtype=torch.complex128)
        return Convolution(kernel, (), here, there, grid_size=[size])
    if kind == "crop":
        return Slice({here: slice(start, size)}, [size], shape=(here,), to=(there,))
    if kind == "pad":
        return PadDim(here, size, size + start, (here,), (there,), before=start)
    matrix = torch.rand(size, size, dtype=torch.complex128)
    return Dense(matrix, (there, here), (here,), (there,))


@st.composite
def narrowing_chains(draw: st.DrawFn) -> NamedLinop:
    """Draw chains of two; the normal may give its output the name that the chain's output has."""
    here, inside, there = draw(
        st.sampled_from([("N", "M", "P"), ("N", "M", "N1"), ("N", "N1", "M")])
    )
    kinds, size = st.sampled_from(["blur", "crop", "pad", "dense"]), draw(st.integers(2, 5))
    A = narrowing(draw(kinds), here, inside, size, draw(st.integers(0, size - 1)))
    size = A.sizes("output")[-1] or 0
    return narrowing(draw(kinds), inside, there, size, draw(st.integers(0, size - 1))) @ A


@given(st.data())
def test_tiles_that_use_a_part_inside_can_be_cut_again(data: st.DataObject) -> None:
    A = data.draw(narrowing_chains())
    once = batch_linop(A, data.draw(batch_sizes(A)))
    sizes = {str(dim): size or 0 for dim, size in zip(A.ishape, A.sizes("input"), strict=True)}
    torch.testing.assert_close(once.to_dense(sizes), A.to_dense(sizes))
    torch.testing.assert_close(once.N(x := torch.rand(*sizes.values()) + 0j), A.N(x))
    assert once.N.shape == A.N.shape
    for linop in (once, once.H, once.N):
        assert_tiles_make_the_whole(linop, data.draw(batch_sizes(linop)), sizes)


def test_a_normal_that_is_computed_in_turn_has_the_names_of_the_whole() -> None:
    zero = Zero(("B", "E"), ("D",), sizes={"B": 2, "E": 3, "D": 4})
    A = Chain(RealPart(("B", "E")), zero)  # the input of A.N has the names of its output
    assert_tiles_make_the_whole(A, {"E": 1})
    assert_tiles_make_the_whole(A, {"D": 2, "E": 2})


def test_a_size_that_only_the_whole_knows_is_checked() -> None:
    zero = Zero(("D",), ("M",), sizes={"D": 2, "M": 1})  # which is no part of the table
    total = SimpleLinop(
        lambda x: x.sum(-1, keepdim=True), lambda y: y.expand(2), ishape=("D",), oshape=("M",)
    )
    A = Stack(total, zero, idim_and_idx=("B", 0))
    assert_tiles_make_the_whole(A, {"B": 1})
    with pytest.raises(ValueError, match="D must have size 2, got 3"):
        batch_linop(A, {"B": 1})(torch.ones(2, 3))


def test_a_dimension_with_other_sizes_inside_other_parts_cannot_be_cut() -> None:
    parts = [Dense(torch.rand(2, n), ("P", "M")) @ Dense(torch.rand(n, 3)) for n in (2, 4)]
    grid = np.empty(2, dtype=object)
    grid[:] = parts
    A = assemble(grid, ("P",))
    with pytest.raises(
        SplitError, match=r"M cannot be split: it has the sizes \['2', '4'\] inside"
    ):
        batch_linop(A, {"M": 1})
    assert_tiles_make_the_whole(A, {"P": 1, "N": 2})


@given(st.data())
def test_cutting_allocates_nothing(
    no_allocation: Callable[[], AbstractContextManager[object]], data: st.DataObject
) -> None:
    linop = data.draw(trees()).linop
    sizes = data.draw(batch_sizes(linop))
    with no_allocation():
        batch_linop(linop, sizes)


@given(st.data())
def test_gradients_are_those_of_the_whole(data: st.DataObject) -> None:
    known = data.draw(trees())
    A = known.linop
    batched = batch_linop(A, data.draw(batch_sizes(A)))
    x = torch.rand(known.spaces.lengths(known.spaces.ishape), dtype=torch.complex128)
    x.requires_grad_()
    weights = [t for t in (*A.parameters(), *A.buffers()) if not is_integer(t)]
    for weight in weights:
        weight.requires_grad_()
    result, wanted = (
        torch.autograd.grad(
            linop(x).abs().square().sum() + 0 * x.real.sum(), [x, *weights], materialize_grads=True
        )
        for linop in (batched, A)
    )
    torch.testing.assert_close(result, wanted)


def is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def matrix() -> Dense:
    return Dense(nn.Parameter(torch.rand(4, 6, dtype=torch.complex128)), ("M", "N"))


def test_the_tiles_hold_the_parameter_itself() -> None:
    A = matrix()
    weights = {id(weight) for weight in batch_linop(A, {"M": 1, "N": 2}).parameters()}
    assert weights == {id(A.weight)}


def test_a_term_without_the_dimension_is_added_once() -> None:
    A = Dense(torch.rand(3, 5), ("N", "M")) @ Dense(torch.rand(5, 3), ("M", "N"))
    B = Add(A.renamed({ND("N"): ND("A")}), Scalar(2.0, ("A",)))
    assert_tiles_make_the_whole(A.normal(), {"M": 2})
    for size in range(1, 6):
        assert_tiles_make_the_whole(B, {"M": size}, {"A": 3})


def test_blocks_are_cut_where_the_tiles_end_and_not_where_they_do() -> None:
    A = Concat(*(Diagonal(torch.rand(n), ("N",)) for n in (2, 3, 1)), idim="N", odim="N")
    for size in range(1, 8):
        assert_tiles_make_the_whole(A, {"N": size})


def test_what_is_cut_follows_the_weight() -> None:
    A = matrix()
    batched = batch_linop(A, {"M": 3, "N": 4})
    derived = [batched, batched.H, batched.N]
    A.weight = nn.Parameter(torch.ones(4, 6, dtype=torch.complex128))
    for linop, wanted in zip(derived, [A, A.H, A.N], strict=True):
        torch.testing.assert_close(linop.to_dense(), wanted.to_dense())


def test_one_tile_is_the_operator_itself() -> None:
    A = matrix()
    assert batch_linop(A, {}) is A
    assert batch_linop(A, {"M": 4, "N": 10}) is A


def test_with_other_weights_it_computes_with_those() -> None:
    A = matrix()
    batched = batch_linop(A, {"M": 3, "N": 4})
    for linop in (batched, batched.H):
        x = torch.rand([linop.size(dim) or 0 for dim in linop.ishape], dtype=torch.complex128)
        with torch.no_grad():
            wanted = 2 * linop(x)
            result = linop.with_weights(lambda weight: 2 * weight)(x)
        torch.testing.assert_close(result, wanted)


def test_it_works_with_the_workspace_of_one_tile(peak: Callable[[Callable[[], Any]], int]) -> None:
    """Beside input, output and sum: for each tile its coil image, once as input, once as output."""
    maps, x = torch.rand(16, 1000), torch.rand(1000)
    A = Diagonal(torch.rand(1000), ("C", "N"), weight_shape=("N",)) @ Dense(
        maps, ("C", "N"), ("N",), ("C", "N")
    )
    whole, batched = A.N, batch_linop(A, {"C": 1}).N
    assert peak(lambda: batched(x)) <= 6 * x.nbytes
    assert peak(lambda: whole(x)) >= 16 * x.nbytes


def test_the_law_cuts_dimensions_whose_size_is_given() -> None:
    assert_tiles_make_the_whole(FFT(1, batch_shape=("C",)), {"C": 2}, {"C": 3, "Nx": 4})


def test_the_law_finds_tiles_that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def overlapping(linop: Dense, tile: dict[NamedDimension, slice]) -> NamedLinop:
        return right(linop, {ND("N"): slice(0, tile[ND("N")].stop - tile[ND("N")].start)})

    right = Dense.split
    monkeypatch.setattr(Dense, "split", staticmethod(overlapping))
    with pytest.raises(AssertionError, match=r"the tiles of Dense \(N\) -> \(M\) cut by .* off by"):
        assert_tiles_make_the_whole(matrix(), {"N": 2})


def test_the_law_finds_supports_that_are_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dense, "support", lambda A, dim: slice(0, 1) if dim == "M" else None)
    with pytest.raises(
        AssertionError, match=r"within its supports \{'M': slice\(0, 1, None\)\}: off"
    ):
        assert_tiles_make_the_whole(matrix(), {"N": 2})


@pytest.mark.parametrize("kind", ["H", "N"])
def test_the_law_finds_derived_operators_that_are_wrong(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"H": "adjoint", "N": "normal"}[kind]
    twice = property(lambda linop: 2 * getattr(linop, name)())
    monkeypatch.setattr(Tiled, kind, twice)
    with pytest.raises(AssertionError, match=f"the {name} of Dense"):
        assert_tiles_make_the_whole(matrix(), {"N": 2})


def test_cuttable_dimensions_are_those_with_a_role_and_a_size() -> None:
    A = matrix()
    assert cuttable_dims(A) == ["M", "N"]
    assert cuttable_dims(A.N) == ["M", "N", "N1"]
    assert cuttable_dims(Scalar(2.0, ("N",))) == []


def test_the_arguments_are_checked_as_those_of_split_linop() -> None:
    for cut in (split_linop, batch_linop):
        with pytest.raises(SplitError, match="got Q"):
            cut(matrix(), {"Q": 1})


@pytest.mark.parametrize("batch_size", [2, 9])
def test_sizes_that_were_given_are_checked_also_where_nothing_is_cut(batch_size: int) -> None:
    F = FFT(1, batch_shape=("C", "D"))
    batched = batch_linop(F, {"C": batch_size}, sizes={"C": 4, "D": 3})
    x = torch.rand(4, 3, 8, dtype=torch.complex128)
    for linop, whole in ((batched, F), (batched.H, F.H), (batched.N, F.N)):
        torch.testing.assert_close(linop(x), whole(x))
        for wrong in (x[:3], x[:, :2]):
            with pytest.raises(ValueError, match=r"must have size (4, got 3|3, got 2)"):
                linop(wrong)


def test_sizes_that_were_given_have_the_names_of_the_operator() -> None:
    C, D = ND.infer(("C", "D"))
    batched = batch_linop(FFT(1, batch_shape=("C", "D")), {"C": 2}, sizes={"C": 4, "D": 3})
    for names, dim in (({D: ND("E")}, "E"), ({C: D, D: C}, "C")):
        other = batched.renamed(names)
        assert other.size(dim) == 3
        other(torch.rand(4, 3, 8, dtype=torch.complex128))
        with pytest.raises(ValueError, match=f"{dim} must have size 3, got 2"):
            other(torch.rand(4, 2, 8, dtype=torch.complex128))


@pytest.mark.parametrize("length", [1, 100])
def test_options_of_a_bar_must_be_a_mapping(length: int) -> None:
    with pytest.raises(TypeError, match="tqdm_kwargs must be a mapping of options, got True"):
        batch_linop(Diagonal(torch.rand(3), ("N",)), {"N": length}, tqdm_kwargs=True)  # type: ignore[arg-type]
