import pytest
import torch

from linops_core import Dense, Diagonal, NamedLinop
from linops_core.testing._tiles import tiles_of, whole_of
from nameddim import ND


@pytest.mark.parametrize("dim", ["M", "N", "B"])
def test_tiles_are_put_together_by_the_role_of_the_dimension(dim: str) -> None:
    A = Dense(torch.arange(12.0).reshape(2, 3, 2), ("B", "M", "N"), ("N", "B"), ("M", "B"))
    sizes = {"B": 2, "M": 3, "N": 2}
    tiles = tiles_of(A, ND(dim), 2, sizes)
    assert [window[ND(dim)].stop for window, _ in tiles][-1] == sizes[dim]
    assert torch.equal(whole_of(tiles, A, sizes), A.to_dense())


def test_a_tile_of_another_shape_is_refused() -> None:
    A = Diagonal(torch.ones(2), ("N",))
    other: NamedLinop = Diagonal(torch.ones(1), ("M",))
    with pytest.raises(ValueError, match=r"Diagonal \(N\) -> \(N\): a tile must have the shape"):
        whole_of([({ND("N"): slice(0, 1)}, other)], A, {"N": 2})
