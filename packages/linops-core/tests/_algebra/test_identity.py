from collections.abc import Callable

import pytest
import torch

from linops_core import FFT, Identity, NamedLinop, PadDim, Roll, Truncate
from linops_core._algebra._identity import is_identity
from nameddim import ND


def test_the_input_itself_is_returned() -> None:
    x = torch.ones(2, 3)
    assert Identity()(x) is x
    assert Identity().H(x) is x
    assert Identity().N(x) is x


def test_a_renamed_dimension_cannot_be_sliced_and_the_others_can() -> None:
    A = Identity(("A", "B"), ("A", "C"))
    assert {str(dim): str(A.role(dim)) for dim in A.dims} == {
        "A": "batch",
        "B": "opaque",
        "C": "opaque",
    }
    assert A.why_opaque("C") == (
        "it is B in the input and C in the output, and an Identity does not know its length n; "
        "use one name on both sides, or PadDim('B', n, n, ishape, oshape)"
    )
    assert (A.N.ishape, A.N.oshape) == (("A", "B"), ("A", "B"))
    assert (A.H.N.ishape, A.H.N.oshape) == (("A", "C"), ("A", "C"))


def test_what_is_used_in_place_of_an_identity_that_cannot_be_cut_is_the_same_and_can() -> None:
    A = PadDim("B", 4, 4, ("A", "B"), ("A", "C"))
    assert A.signature == "PadDim (A, B) -> (A, C)"
    x = torch.randn(2, 4)
    assert torch.equal(A(x), x)
    tile = A.split(A, {ND("B"): slice(1, 4), ND("C"): slice(0, 2)})
    assert torch.equal(tile(x[:, 1:4]), x[:, :2] * torch.tensor([0.0, 1.0]))


def test_only_what_renames_nothing_may_be_left_out() -> None:
    assert is_identity(Identity(("A",))) and is_identity(Identity())
    assert not is_identity(Identity(("A",), ("B",)))


def test_the_shapes_must_have_one_length() -> None:
    with pytest.raises(ValueError, match=r"Identity: ishape and oshape must have the same length"):
        Identity(("A",), ("A", "B"))


@pytest.mark.parametrize(
    ("ishape", "oshape"),
    [(("...", "N"), ("N", "...")), (("(1)", "(2)"), ("(2)", "(1)")), (("()",), ("N",))],
)
def test_a_wildcard_cannot_get_another_place(ishape: tuple[str], oshape: tuple[str]) -> None:
    with pytest.raises(ValueError, match=r"Identity: a renamed dimension must have a name, got"):
        Identity(ishape, oshape)


def sized() -> list[NamedLinop]:
    """Return operators of one dimension of 4 whose normal is an identity."""
    pad = PadDim("N", 4, 6, ("...", "N"), ("...", "M"))
    roll = Roll(("M",), [1], to=("K",), shape=("...", "M"))
    return [pad, Truncate("N", 6, 4, ("...", "N"), ("...", "M")).H, roll @ pad, pad.conj(), -pad]


@pytest.mark.parametrize("A", sized(), ids=str)
@pytest.mark.parametrize(
    "of",
    [
        lambda N: N,
        lambda N: N.H,
        lambda N: N.N,
        lambda N: 2 * N,
        lambda N: N @ N,
        lambda N: N**0,
        lambda N: N + Identity(),
        lambda N: N.renamed({N.ishape[-1]: ND("Z")}),
        lambda N: N @ FFT(dims=N.ishape[-1:]),
        lambda N: FFT(dims=N.ishape[-1:]) @ N,
        lambda N: FFT(dims=N.ishape[-1:]).normal(N),
        lambda N: N.normal(N),
    ],
)
def test_a_normal_that_is_an_identity_knows_the_sizes(
    A: NamedLinop, of: Callable[[NamedLinop], NamedLinop]
) -> None:
    assert of(A.N)(torch.ones(2, 4)).shape == (2, 4)
    for wrong in (1, 3, 5, 6):
        with pytest.raises(ValueError, match=f"must have size 4, got {wrong}"):
            of(A.N)(torch.ones(2, wrong))


def test_a_tile_of_a_sized_identity_has_the_size_of_the_tile() -> None:
    N = PadDim("N", 4, 6, ("N",), ("M",)).N
    tile = N.split(N, {ND("N"): slice(1, 3)})
    assert tile.sizes("input") == (2,)
    assert N.split(N, {ND("N"): slice(0, 4)}).sizes("input") == (4,)
