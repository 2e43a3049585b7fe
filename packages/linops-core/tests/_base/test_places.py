"""Lengths are those of places: one name may be several dimensions of an operator."""

import pytest
import torch
from hypothesis import given
from torch import Tensor

from linops_core import (
    Add,
    Chain,
    Concat,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    PadLast,
    Repeat,
    Role,
    SplitError,
    Stack,
    Zero,
)
from linops_core._base._places import (
    equal_places_in_chain,
    equal_places_side_by_side,
    matching_positions,
)
from linops_core.testing.strategies import Known, trees
from nameddim import ND, NamedShape, as_dims


def pad(n_output: int = 5, n_input: int = 2) -> NamedLinop:
    return PadLast([n_output], [n_input], ("Nx",), ("Nx",), ())


def row() -> NamedLinop:
    return Dense(torch.randn(3, 5), ("M", "Nx"))


def test_a_chain_has_the_length_of_its_own_input_and_output() -> None:
    A = row() @ pad()
    assert A.size("Nx") == 2 and A.sizes("input") == (2,) and A.sizes("output") == (3,)
    assert A.to_dense().shape == (3, 2)
    assert A.to_scipy().shape == (3, 2)
    assert (A + A)(torch.ones(2)).shape == (3,)
    both = Concat(A, A, odim="M")
    torch.testing.assert_close(both(torch.ones(2)), torch.cat([A(torch.ones(2))] * 2))
    torch.testing.assert_close(A.N.to_dense(), A.to_dense().mH @ A.to_dense())
    torch.testing.assert_close(A.H.N.to_dense(), A.to_dense() @ A.to_dense().mH)


def test_a_name_that_is_two_dimensions_is_refused_when_it_is_cut() -> None:
    A = row() @ pad()
    assert A.role("Nx") is Role.OPAQUE
    for piece in (slice(0, 1), slice(0, 4)):
        with pytest.raises(SplitError, match="Nx"):
            A.split(A, {ND("Nx"): piece})
    P = pad()
    for piece in (slice(0, 2), slice(0, 5)):  # all of one side is not all of the other
        with pytest.raises(SplitError, match=r"Nx cannot be split"):
            P.split(P, {ND("Nx"): piece})
    assert P.split(P, {ND("Nx"): slice(None)}) is P


def test_each_side_of_a_sum_has_its_own_length() -> None:
    P = pad()
    A = P + 2 * P
    assert A.sizes("input") == (2,) and A.sizes("output") == (5,)
    with pytest.raises(ValueError, match=r"Add: Nx must have one size, got 5 in .* and 4 in PadL"):
        Add(P, pad(4))
    with pytest.raises(ValueError, match=r"Add: Nx must have one size, got 2 in .* and 3 in PadL"):
        Add(P, pad(5, 3))
    with pytest.raises(ValueError, match=r"Add: Nx must have one size, got 2 .* and 5 in PadLast"):
        Add(Diagonal(torch.ones(2), ("Nx",)), P)  # a diagonal returns as many as it takes
    with pytest.raises(ValueError, match=r"Add: Nx must have one size"):
        Add(P, Identity(("Nx",)))


def test_a_name_may_come_back_with_another_length() -> None:
    A = Chain(pad(), row(), Dense(torch.randn(7, 3), ("Nx", "M"), ("M",), ("Nx",)))
    assert A.sizes("input") == (2,) and A.sizes("output") == (7,)
    assert not A.is_endomorphism
    B = Stack(A, A, odim_and_idx=("K", 0))
    assert B.sizes("input") == (2,) and B.sizes("output") == (2, 7)
    assert B.H.sizes("input") == (2, 7)
    torch.testing.assert_close(B.N.to_dense(), B.to_dense().mH @ B.to_dense())


def test_lengths_are_followed_through_a_renaming() -> None:
    A = Diagonal(torch.ones(4), ("K",)) @ Identity(("N",), ("K",))
    assert A.sizes("input") == (4,)
    with pytest.raises(ValueError, match=r"Chain: N, which is K further on, must have one size"):
        A @ Diagonal(torch.ones(3), ("N",))


def test_nameless_dimensions_that_are_numbered_differently_are_one() -> None:
    x = torch.randn(3, 3)
    A, B = (Diagonal(torch.randn(3, 3), ("...", f"({i})", "E")) for i in (1, 2))
    X = A @ B
    torch.testing.assert_close((X + X)(x), 2 * A(B(x)))
    with pytest.raises(ValueError, match=r"must have one size, got 4 in .* and 3 in"):
        A @ Diagonal(torch.randn(4, 3), ("...", "(2)", "E"))


@pytest.mark.parametrize("swapped", [False, True])
def test_weights_of_unlike_ranks_are_aligned_from_behind(swapped: bool) -> None:
    D, E = Diagonal(torch.randn(2)), Diagonal(torch.randn(4, 2))
    x = torch.randn(4, 2)
    pair = (E, D) if swapped else (D, E)
    torch.testing.assert_close(Add(*pair)(x), D(x) + E(x))
    torch.testing.assert_close(Chain(*pair)(x), D(E(x)))
    torch.testing.assert_close(Stack(*pair, odim_and_idx=("K", 0))(x).sum(0), D(x) + E(x))


def test_a_broadcast_dimension_has_size_1_on_one_side() -> None:
    A = Repeat({"N": 3}, ("N",), ("N",), ["N"])
    for linop in (A.N, A.H.N, A.N.N, A @ A.H, A.H @ A, A + A, A.H.N + A @ A.H):
        matrix = linop.to_dense()
        assert matrix.shape == (linop.sizes("output")[0], linop.sizes("input")[0])
    assert (A.sizes("input"), A.sizes("output")) == ((1,), (3,))


def test_positions_behind_an_ellipsis_are_counted_from_the_end() -> None:
    dims = NamedShape(("A", "...", "B"), ("A", "B", "C", "...", "D")).ishape
    assert list(matching_positions(dims, as_dims(("A", "X", "B")))) == [(0, 0), (2, 2)]
    assert list(matching_positions(dims, dims)) == [(0, 0), (1, 1), (2, 2)]
    assert list(matching_positions(dims, as_dims(("...", "B")))) == [(2, 1)]


@given(trees())
def test_lengths_of_places_are_those_of_vectors(known: Known) -> None:
    A = known.linop
    for linop in (A, A.H, A.N, A.H.N, A.conj()):
        lengths = [known.spaces.sizes.get(dim.name) for dim in linop.ishape]
        result = zip(linop.sizes("input"), lengths, strict=True)
        assert all(size in (None, length) for size, length in result)
        x = torch.zeros([length or 0 for length in lengths], dtype=torch.complex128)
        y: Tensor = linop(x)
        found_there = zip(linop.sizes("output"), y.shape, strict=True)
        assert all(size in (None, length) for size, length in found_there)
        for here, there in linop.linked_positions():
            assert x.shape[here] == y.shape[there]


def test_a_user_s_composition_says_what_names_say() -> None:
    class There(Add):
        """Uses the adjoint of its operand without being made of it."""

        @staticmethod
        def adj_fn(linop: "There", y: Tensor, /) -> Tensor:
            (term,) = linop.linops
            return term.H(y)

    A = There(row())
    assert A.H.sizes("input") == (3,) and A.H.sizes("output") == (5,)
    crossed = There(pad())
    assert crossed.sizes("input") == (None,)  # the names do not say which is meant


class TestZero:
    D = Dense(torch.ones(3, 2), ("M", "N"), ("N",), ("M",))
    Z = Zero(("M",), ("N",), sizes={"M": 3, "N": 5})

    @pytest.mark.parametrize("way", ["@", "Chain", "-", "2 *", "** 1", "H.H"])
    def test_a_chain_with_a_zero_keeps_both_lengths(self, way: str) -> None:
        chain = Chain(self.D, self.Z)
        ways = {
            "@": self.Z @ self.D,
            "Chain": chain,
            "-": -chain,
            "2 *": 2 * chain,
            "** 1": (chain * 1) @ Identity(("N",)),
            "H.H": (self.Z @ self.D).H.H,
        }
        A = ways[way]
        assert A.to_dense().shape == (5, 2) and not A.to_dense().any()
        assert A.H(torch.ones(5)).shape == (2,)
        assert A.N(torch.ones(2)).shape == (2,)
        assert A.H.N(torch.ones(5)).shape == (5,)
        assert A.conj()(torch.ones(2)).shape == (5,)
        renamed = A.renamed({ND("N"): ND("K")})
        assert renamed(torch.ones(2)).shape == (5,)
        with pytest.raises(ValueError, match=r"N must have size 2, got 5"):
            A(torch.ones(5))
        assert A.role("N") is Role.OPAQUE
        with pytest.raises(SplitError, match=r"N cannot be split"):
            A.split(A, {ND("N"): slice(0, 1)})

    def test_a_zero_after_a_pad_is_as_long_as_what_it_gets(self) -> None:
        A = Zero(("Nx",)) @ pad()
        assert A.to_dense().shape == (5, 2)
        assert A.N.to_dense().shape == (2, 2)
        assert (A + pad()).to_dense().equal(pad().to_dense())
        assert (pad() + A).to_dense().equal(pad().to_dense())

    def test_where_lengths_are_not_known_the_chain_stays(self) -> None:
        class Every(NamedLinop):
            "Every second element: an operator that knows no length."

            @staticmethod
            def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
                return x[::2]

        A = Zero(("N",)) @ Every(NamedShape(("N",)))
        assert A(torch.ones(4)).shape == (2,)


def test_seams_are_where_operators_meet() -> None:
    A, P = row(), pad()
    shape = NamedShape(("Nx",), ("M",))
    assert list(equal_places_in_chain(shape, [P, A])) == [
        ((-1, "input", 0), (0, "input", 0)),
        ((0, "output", 0), (1, "input", 0)),
        ((-1, "output", 0), (1, "output", 0)),
    ]
    assert list(equal_places_side_by_side(shape, [A])) == [
        ((-1, "input", 0), (0, "input", 0)),
        ((-1, "output", 0), (0, "output", 0)),
    ]
