import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from linops_core import Dense, Diagonal, NamedLinop, SliceableLinop
from linops_core._base._cutting import tiles_at
from linops_core.siblings import without_fftshift
from linops_core.testing.strategies import Known, diagonals
from nameddim import ND, NamedShape


class Weighted(SliceableLinop):
    """A weight with whatever dimensions."""

    def __init__(self, weight: Tensor, dims: tuple[str, ...], broadcast: str = "") -> None:
        super().__init__(NamedShape(("A", "B"), weight_shape=dims))
        self.register_weight("weight", weight, "weight_shape", tuple(map(ND, broadcast)))

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        return x

    adj_fn = fn


def part(linop: NamedLinop) -> Tensor:
    assert isinstance(linop, SliceableLinop)
    return linop.weight_part("weight")


def test_a_parameter_stays_one_and_other_tensors_become_buffers() -> None:
    weight = nn.Parameter(torch.ones(2))
    assert Weighted(weight, ("A",)).weight is weight
    assert list(Weighted(weight, ("A",)).parameters()) == [weight]
    computed = 2 * weight
    A = Weighted(computed, ("A",))
    assert A.weight is computed and list(dict(A.named_buffers())) == ["weight"]


def test_tiles_of_tiles_are_views_of_the_whole_weight() -> None:
    weight = torch.arange(5.0)
    A = Weighted(weight, ("A",))
    tile = A.split(A, {ND("A"): slice(1, 5)})
    again = tile.split(tile, {ND("A"): slice(1, -1)})
    assert part(again).tolist() == [2.0, 3.0]
    assert part(again).data_ptr() == weight[2:].data_ptr()
    assert (A.size("A"), tile.size("A"), again.size("A")) == (5, 4, 2)
    assert again.split(again, {}) is again
    for linop in (A, tile, again, A.H):
        assert isinstance(linop, SliceableLinop)
        assert linop._weights["weight"].shape_of(weight) == part(linop).shape


def test_a_broadcast_dimension_has_any_size_and_is_not_cut() -> None:
    A = Weighted(torch.ones(1, 3), ("A", "B"), "A")
    assert (A.size("A"), A.size("B")) == (None, 3)
    tile = A.split(A, {ND("A"): slice(2, 3), ND("B"): slice(0, 2)})
    assert part(tile).shape == (1, 2)


def test_an_adjoint_is_cut_as_its_operator() -> None:
    A = Weighted(torch.arange(3.0), ("A",))
    tile = A.H.split(A.H, {ND("A"): slice(1, 2)})
    assert part(tile).tolist() == [1.0]
    assert part(A.adj_split(A, {ND("A"): slice(1, 2)})).tolist() == [1.0]


@pytest.mark.parametrize(
    ("weight", "dims", "broadcast", "error", "message"),
    [
        (2.0, ("A",), "", TypeError, r"Weighted: weight must be a torch.Tensor, got <class 'fl"),
        (torch.ones(2), ("A", "B"), "", ValueError, r"must have 2 dimensions for weight_shape"),
        (torch.ones(2, 2), ("()", "()"), "", ValueError, r"distinguish them, got \(\(\), \(\)\)"),
        (torch.ones(2), ("A",), "A", ValueError, r"must have size 1 along the broadcast dimension"),
        (torch.ones(2), ("A",), "B", ValueError, r"must have size 1 along the broadcast dimension"),
    ],
)
def test_a_weight_that_does_not_fit_its_dimensions_is_refused(
    weight: Tensor, dims: tuple[str, ...], broadcast: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Weighted(weight, dims, broadcast)


def test_a_tile_refuses_a_weight_of_another_shape_than_it_was_cut_from() -> None:
    linop = Diagonal(torch.nn.Parameter(torch.arange(6.0)), ("N",))
    tile = linop.split(linop, {ND("N"): slice(3, 6)})
    linop.weight = torch.nn.Parameter(torch.arange(4.0))
    with pytest.raises(ValueError, match=r"shape that it was cut from, \(6,\), got \(4,\)"):
        tile(torch.ones(3))


def test_a_weight_is_replaced_by_one_with_its_dimensions_only() -> None:
    linop = Diagonal(torch.nn.Parameter(torch.arange(6.0)), ("N",))
    linop.weight = torch.nn.Parameter(torch.ones(6, 1))
    with pytest.raises(ValueError, match=r"replaced by one of shape \(N\), got \(6, 1\)"):
        linop(torch.ones(6))


def test_a_weight_that_no_longer_fits_is_noticed_whatever_was_admitted_before() -> None:
    x = torch.ones(3)
    for kind in ("replaced", "data"):
        D = Diagonal(torch.nn.Parameter(torch.ones(3)), ("N",))
        adjoint, normal = D.H, D.N
        for linop in (D, adjoint, normal):
            linop(x)
        if kind == "replaced":
            D.weight = torch.nn.Parameter(torch.ones(1))
        else:
            D.weight.data = torch.ones(1)
        for linop in (D, adjoint, normal):
            with pytest.raises(ValueError, match=r"N must have size 1, got 3"):
                linop(x)
            assert linop(torch.ones(1)).tolist() == [1.0]


def test_the_output_is_checked_again_at_the_first_call_with_a_weight_of_another_shape() -> None:
    class Scaled(SliceableLinop):
        def __init__(self) -> None:
            super().__init__(NamedShape(("N",), ("M",), gain_shape=("M",), row_shape=("M",)))
            self.register_weight("gain", torch.ones(1), "gain_shape")
            self.register_weight("row", torch.ones(1), "row_shape")

        @staticmethod
        def fn(linop: SliceableLinop, x: Tensor, /) -> Tensor:
            return linop.weight_part("gain") * linop.weight_part("row") * x.sum()

    A = Scaled()
    assert A(torch.ones(2)).shape == (1,)
    A.row.data = torch.ones(3)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"Scaled: M must have size 1, got 3 in an output"):
            A(torch.ones(2))


def test_inputs_of_other_shapes_are_checked_each_time() -> None:
    D = Diagonal(torch.ones(3), ("N",))
    for _ in range(2):
        D(torch.ones(3))
        for wrong in (torch.ones(1), torch.ones(3, 3)):
            with pytest.raises(ValueError, match=r"Diagonal: "):
                D(wrong)
        with pytest.raises(TypeError, match=r"the input must be a torch.Tensor"):
            D(np.ones(3))  # type: ignore[arg-type]


def test_what_was_admitted_is_not_taken_over_by_copies() -> None:
    D = Diagonal(torch.ones(3), ("N",))
    D(torch.ones(3))
    for other in (copy.copy(D), copy.deepcopy(D), D.H, D.with_weights(Tensor.clone)):
        other.weight = torch.ones(2)
        with pytest.raises(ValueError, match=r"N must have size 2, got 3"):
            other(torch.ones(3))


@given(diagonals(), st.data())
def test_an_operator_without_fftshift_is_the_operator_between_shifts(
    known: Known, data: st.DataObject
) -> None:
    D, where = known.linop, known.spaces
    dims = data.draw(st.sets(st.sampled_from(where.ishape or ("A",))))
    named = D.resolved(ishape=tuple(map(ND, where.ishape)))
    plain = without_fftshift(named, [ND(dim) for dim in dims])
    assert plain is not None
    x = torch.randn(where.lengths(where.ishape), dtype=torch.complex128)
    axes = [axis for axis, dim in enumerate(where.ishape) if dim in dims]
    there = torch.fft.fftshift(x, dim=axes) if axes else x
    back = named(there)
    expected = torch.fft.ifftshift(back, dim=axes) if axes else back
    torch.testing.assert_close(plain(x), expected)
    for dim in where.ishape:
        cut = {ND(dim): slice(0, 1)}
        part = x.narrow(where.ishape.index(dim), 0, 1)
        tile = plain.split(plain, cut)
        torch.testing.assert_close(tile(part), expected.narrow(where.ishape.index(dim), 0, 1))
        packed = tile.with_weights(Tensor.clone)
        torch.testing.assert_close(packed(part), tile(part))


def test_a_weight_that_tiles_share_is_one_for_all_though_it_is_shifted() -> None:
    D = without_fftshift(Diagonal(torch.rand(4), ("C", "N"), weight_shape=("N",)), [ND("N")])
    assert D is not None
    tiles = [D.split(D, {ND("C"): slice(c, c + 1)}) for c in range(2)]
    packed = [tile.with_weights(Tensor.detach) for tile in tiles]
    assert len({weight.data_ptr() for tile in packed for weight in tile.buffers()}) == 1
    x = torch.rand(1, 4)
    for tile, other in zip(tiles, packed, strict=True):
        assert torch.equal(other(x), tile(x))


def test_a_size_that_an_attribute_tells_may_change_while_nothing_is_derived() -> None:
    class Sized(SliceableLinop):
        def __init__(self) -> None:
            super().__init__(NamedShape(("A",)))
            self.n = 2

        def size(self, dim: object) -> int | None:
            return self.n

        @staticmethod
        def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
            return x

    A = Sized()
    A(torch.ones(2))
    A.n = 3
    with pytest.raises(ValueError, match=r"Sized: A must have size 3, got 2"):
        A(torch.ones(2))


def test_a_tile_of_a_tile_keeps_the_shape_that_the_first_was_cut_from() -> None:
    A = Dense(nn.Parameter(torch.rand(4, 5)), ("M", "N"))
    tile = A.split(A, {ND("M"): slice(0, 2)})
    A.weight = nn.Parameter(torch.rand(6, 5))
    piece = tile.split(tile, {ND("N"): slice(0, 2)})
    for linop, n_columns in ((tile, 5), (piece, 2)):
        with pytest.raises(ValueError, match=r"must keep the shape that it was cut from, \(4, 5\)"):
            linop(torch.rand(n_columns))


@pytest.mark.parametrize("register", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_a_parametrization_of_a_weight_is_refused_and_changes_nothing(
    register: Callable[[nn.Module], nn.Module],
) -> None:
    A = Dense(nn.Parameter(torch.rand(2, 3)), ("M", "N"))
    expected = A(torch.ones(3))
    with pytest.raises(
        RuntimeError, match=r"Dense: weight must stay a tensor of the operator, got"
    ):
        register(A)
    assert torch.equal(A(torch.ones(3)), expected) and [*A.state_dict()] == ["weight"]
    A.note = torch.ones(1)
    del A.note


def test_tiles_may_be_of_unlike_dimensions() -> None:
    M = Dense(torch.rand(3, 4), ("M", "N"))
    windows = [
        {ND("M"): slice(0, 3), ND("N"): slice(0, 1)},
        {ND("M"): slice(0, 1), ND("N"): slice(1, 3)},
        {ND("M"): slice(1, 3)},
        {ND("N"): slice(0, 4)},
    ]
    for A in (M, M @ Diagonal(torch.rand(4), ("N",)), M + M, M.conj()):
        for tile, window in zip(tiles_at(A, windows), windows, strict=True):
            rows, columns = (window.get(dim, slice(None)) for dim in (ND("M"), ND("N")))
            torch.testing.assert_close(tile.to_dense(), A.to_dense()[rows, columns])
