import gc
import weakref
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from linops_core import (
    FFT,
    Chain,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Normal,
    RealPart,
    Role,
    Sampling,
    Scalar,
    Slice,
    SumReduce,
)
from linops_core._algebra._normal import composed_normal
from linops_core.testing.strategies import Known, trees
from nameddim import ND


class Gram(Dense):
    """A matrix with a closed form of its normal operator."""

    @staticmethod
    def normal_fn(linop: Any, x: Tensor) -> Tensor:
        weight: Tensor = linop.weight_part("weight")
        return (weight.mH @ weight) @ x


def gram() -> Gram:
    return Gram(torch.tensor([[1.0, 2j], [0.0, 1.0], [1j, 1.0]], dtype=torch.complex128))


def test_a_closed_form_is_used_and_reads_the_weight_when_called() -> None:
    A = gram()
    N = A.N
    assert isinstance(N, Normal) and N.name == "Gram.N"
    assert next(N.linop.buffers()) is A.weight
    assert (N.ishape, N.oshape) == (("N",), ("N1",))
    torch.testing.assert_close(N.to_dense(), A.to_dense().mH @ A.to_dense())
    A.weight.mul_(2)
    torch.testing.assert_close(N.to_dense(), A.to_dense().mH @ A.to_dense())
    torch.testing.assert_close(N.H.to_dense(), N.to_dense())


def test_a_closed_form_is_cut_along_the_rows_alone() -> None:
    N = gram().N
    assert {str(dim): N.role(dim) for dim in N.dims} == {
        "M": Role.INNER,
        "N": Role.OPAQUE,
        "N1": Role.OPAQUE,
    }
    assert "needs all elements that it sums over" in str(N.why_opaque("N1"))
    assert (N.size("M"), N.size("N"), N.size("N1"), N.size("Q")) == (3, 2, 2, None)
    tiles = [N.split(N, {ND("M"): slice(k, k + 1)}) for k in range(3)]
    torch.testing.assert_close(sum(tile.to_dense() for tile in tiles), N.to_dense())


def test_a_closed_form_can_be_renamed_and_resolved() -> None:
    N = gram().N.renamed({ND("N"): ND("K"), ND("N1"): ND("N")})
    assert (N.ishape, N.oshape, N.size("N")) == (("K",), ("N",), 2)
    loose = Scalar(torch.tensor(2.0)).N
    named = loose.resolved(ishape=(ND("A"),))
    assert isinstance(named, Normal) and named.linop.ishape == ("A",)
    assert loose.resolved() is loose
    default = Normal(FFT(1, norm="backward"))
    assert (default.ishape, default.oshape) == (("...", "Nx"), ("...", "Nx1"))
    for linop, names in ((default, ("C", "Nx")), (default.H, ("C", "Nx1"))):
        named = linop.resolved(ishape=tuple(map(ND, names)))
        assert isinstance(named, Normal) and named.linop.ishape == ("C", "Nx")
        assert named.ishape == names
        torch.testing.assert_close(named(torch.ones(2, 3)), torch.full((2, 3), 3.0))


def test_what_only_one_side_has_gets_another_name_on_the_way_back() -> None:
    A = Dense(torch.ones(2, 3, 2), ("C", "N", "B"), ("B", "N"), ("C", "B"))
    assert (A.N.ishape, A.N.oshape) == (("B", "N"), ("B", "N1"))
    assert (A.N.N.ishape, A.N.N.oshape) == (("B", "N"), ("B", "N2"))
    through = Chain(
        Dense(torch.ones(2, 3), ("K", "N"), ("N",), ("K",)),
        Dense(torch.ones(4, 2), ("M", "K"), ("K",), ("M",)),
    )
    assert through.N.dims == {"N", "K", "M", "K1", "N1"}
    assert all(through.N.role(dim) is not Role.OPAQUE for dim in through.N.dims)


def test_what_appears_twice_along_a_chain_has_two_names_on_the_way_back() -> None:
    names = ("N", "M", "N", "K", "L")
    A = Chain(*(Dense(torch.eye(2), (o, i), (i,), (o,)) for i, o in pairwise(names)))
    way = A.N.flatten()
    assert [linop.oshape[0] for linop in way] == ["M", "N", "K", "L", "K1", "N1", "M1", "N2"]


def test_an_operator_in_the_middle() -> None:
    A = Dense(torch.tensor([[1.0, 2.0], [0.0, 1j]]))
    inner = Diagonal(torch.tensor([3.0, 5.0]), ("M",))
    expected = A.to_dense().mH @ inner.to_dense(dtype=torch.complex64) @ A.to_dense()
    torch.testing.assert_close(A.normal(inner).to_dense(), expected)
    torch.testing.assert_close(composed_normal(A, inner).to_dense(), expected)
    assert A.normal(inner).oshape == ("N1",)
    renaming = Dense(torch.ones(2, 2), ("L", "M"), ("M",), ("L",))
    torch.testing.assert_close(
        A.normal(renaming).to_dense(),
        A.to_dense().mH @ renaming.to_dense(dtype=torch.complex64) @ A.to_dense(),
    )


def test_the_normal_of_an_adjoint_without_names_does_not_hold_the_operator() -> None:
    A = RealPart(())
    alive = weakref.ref(A)
    gc.disable()
    try:
        assert A.H.N(torch.ones(())) == 1
        del A
        assert alive() is None
    finally:
        gc.enable()


def test_an_identity_in_the_middle_vanishes() -> None:
    A = gram()
    assert type(A.normal(Identity())) is Normal
    assert type(A.normal(Identity(("M",)))) is Normal
    assert FFT(1).normal(Identity(("C", "Kx"))).ishape == ("C", "Nx")


def test_names_in_the_middle_resolve_the_operator() -> None:
    F = FFT(1)
    N = F.normal(Diagonal(torch.ones(2, 4, 3), ("A", "B", "Kx")))
    assert (N.ishape, N.oshape) == (("A", "B", "Nx"), ("A", "B", "Nx1"))


@pytest.mark.parametrize(
    "inner",
    [
        Scalar(2.0, ("N",)),
        Identity(("N",)),
        Dense(torch.ones(3), ("M",), ("M",), ()),
    ],
)
def test_what_is_not_on_the_output_space_is_refused(inner: NamedLinop) -> None:
    with pytest.raises(ValueError, match=r"Gram \(N\) -> \(M\): the inner operator of a normal"):
        gram().normal(inner)


@pytest.mark.parametrize(
    "linop",
    [
        Diagonal(torch.tensor([1.0, 2.0, 3.0]), ("N",)),
        Sampling.from_mask(torch.tensor([True, False, True]), input_shape=("N",)),
    ],
    ids=["diagonal", "sampling"],
)
def test_a_closed_form_refuses_the_sizes_that_its_operator_refuses(linop: NamedLinop) -> None:
    with pytest.raises(ValueError, match="N must have size 3, got 1"):
        linop.N(torch.ones(1))


NUMBERED = {ND(a): ND(b) for a, b in zip("ABCDE", ("N", "N1", "N2", "N3", "M"), strict=True)}


@given(trees())
def test_new_names_of_a_normal_are_those_of_no_other_dimension(known: Known) -> None:
    A = known.linop.renamed({a: b for a, b in NUMBERED.items() if a in known.linop.dims})
    for normal in (A.N, A.H.N):
        pairs = zip(normal.ishape, normal.oshape, strict=True)
        assert all(there == here or there not in normal.ishape for here, there in pairs)


def test_a_name_inside_does_not_become_that_of_the_input() -> None:
    first = Slice({"N1": slice(0, 2)}, {"N1": 3}, shape=("N", "N1"), to=("S",))
    A = SumReduce(("N", "S"), ("S",), sizes={"N": 2}) @ first
    assert str(A.N.shape) == "(N, N1) -> (N2, N3)"


@pytest.mark.parametrize("word", ["Numbers", "", True])
def test_what_a_normal_multiplies_by_is_one_of_two_words(word: Any) -> None:
    with pytest.raises(ValueError, match=r'Normal: multiplies_by must be "numbers", "number" or'):
        Normal(gram(), multiplies_by=word)
