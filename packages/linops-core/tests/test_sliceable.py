import pytest
import torch
from torch import Tensor, nn

from linops_core import Diagonal, NamedLinop, SliceableLinop
from nameddim import ND, NamedShape


class Weighted(SliceableLinop):
    """A weight with whatever dimensions."""

    def __init__(self, weight: Tensor, dims: tuple[str, ...], broadcast: str = "") -> None:
        super().__init__(NamedShape(("A", "B"), weight_shape=dims))
        self.register_weight("weight", weight, "weight_shape", tuple(map(ND, broadcast)))


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
        (torch.ones(2, 2), ("()", "()"), "", ValueError, r"tell them apart, got \(\(\), \(\)\)"),
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
