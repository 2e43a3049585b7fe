"""What pads and crops share: tiles, one name for two sizes, what is refused."""

import pytest
import torch

from linops_core import Crop, Identity, NamedLinop, PadDim, PadLast, Role, SplitError, Truncate
from nameddim import ND


def test_both_grids_can_be_cut_and_cut_again() -> None:
    A = PadLast([6], [3], ("N",), ("M",), ())
    assert A.role("N") is Role.INPUT and A.role("M") is Role.OUTPUT
    part = A.split(A, {ND("N"): slice(1, 3), ND("M"): slice(2, 5)})
    assert torch.equal(part.to_dense(), A.to_dense()[2:5, 1:3])
    again = part.split(part, {ND("M"): slice(1, 3), ND("N"): slice(0, 1)})
    assert torch.equal(again.to_dense(), A.to_dense()[3:5, 1:2])
    assert torch.equal(again.H.to_dense(), A.to_dense()[3:5, 1:2].mH)
    assert A.split(A, {ND("N"): slice(None)}) is A


def test_a_tile_in_which_nothing_lands_is_zero() -> None:
    A = PadLast([6], [2], ("N",), ("M",))
    part = A.split(A, {ND("M"): slice(5, 6)})
    x = torch.ones(3, 2, dtype=torch.complex64)[0]
    assert part(x).tolist() == [0] and part(x).dtype == torch.complex64
    assert part.N(x).tolist() == [0, 0]
    assert torch.func.jacrev(part)(torch.ones(2)).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    "linop",
    [
        PadLast([4], [2], ("N",), ("N",), ()),
        Crop([2], [4], ("N",), ("N",), ()).H,
        PadDim("N", 2, 4, ("N",), ("N",)),
        Truncate("N", 4, 2, ("N",), ("N",)).H,
    ],
)
def test_one_name_for_two_sizes_is_opaque_and_both_sizes_are_checked(linop: NamedLinop) -> None:
    matrix = linop.to_dense({"N": 2})
    assert matrix.shape == (4, 2)
    assert torch.equal(linop.H.to_dense({"N": 4}), matrix.mH)
    assert torch.equal(linop.N.to_dense({"N": 2}), matrix.mH @ matrix)
    assert torch.equal(linop.H.N.to_dense({"N": 4}), matrix @ matrix.mH)
    assert linop.size("N") == 2 and linop.H.size("N") == 4
    assert linop.sizes("input") == linop.H.sizes("output") == (2,)
    assert linop.sizes("output") == linop.H.sizes("input") == (4,)
    assert linop.role("N") is Role.OPAQUE
    with pytest.raises(SplitError, match=r"N cannot be split: the input and the output have it"):
        linop.split(linop, {ND("N"): slice(0, 1)})
    with pytest.raises(ValueError, match=r"N must have size 2, got 4 in an input"):
        linop(torch.ones(4))
    for wrong in (linop.H, linop.H.N):
        with pytest.raises(ValueError, match=r"N must have size 4, got 1 in an input"):
            wrong(torch.ones(1))
    with pytest.raises(ValueError, match=r"the size along axis -?\d must be 2, got 4 in an input"):
        linop.fn(linop, torch.ones(4))  # for a caller who has not checked it


def test_one_name_in_two_places_is_opaque() -> None:
    A = PadLast([2, 3], [2, 3], ("X", "Y"), ("Y", "X"))
    assert A.role("X") is A.role("Y") is Role.OPAQUE
    assert A.sizes("input") == (None, 2, 3) and A.sizes("output") == (None, 2, 3)
    x = torch.randn(2, 3)
    assert torch.equal(A(x), x) and torch.equal(A.H(x), x)


def test_what_keeps_its_name_and_size_is_a_batch_dimension() -> None:
    A = PadLast([2, 4], [2, 2], ("X", "Y"), ("X", "Z"))
    assert A.role("X") is Role.BATCH and A.size("X") == 2
    part = A.split(A, {ND("X"): slice(1, 2)})
    assert part(torch.ones(1, 2)).tolist() == [[0, 1, 1, 0]]


def test_other_names_change_no_element() -> None:
    A = Crop([2], [5], ("N",), ("M",), ()).renamed({ND("N"): ND("Q"), ND("M"): ND("P")})
    assert (A.size("Q"), A.size("P"), A.size("N")) == (5, 2, None)
    assert A.split(A, {ND("Q"): slice(1, 2)})(torch.tensor([7.0])).tolist() == [7, 0]
    assert A.H.size("Q") == 5 and A.H.ishape == ("P",)


def test_the_normal_is_the_identity_or_a_mask() -> None:
    assert isinstance(PadLast([4], [2]).N, Identity)
    assert isinstance(Crop([2], [4]).H.N, Identity)
    mask = Crop([2], [4], ("N",), ("M",)).N
    assert mask.role("N") is Role.BATCH
    assert mask(torch.ones(4)).tolist() == [0, 1, 1, 0]
    assert mask.split(mask, {ND("N"): slice(0, 2)})(torch.ones(2)).tolist() == [0, 1]


def test_nothing_is_copied_where_nothing_is_filled_in() -> None:
    x = torch.arange(16.0).reshape(4, 4)
    for linop in (Crop([2, 2], [4, 4]), PadLast([4, 4], [2, 2]).H, Truncate(0, 4, 3, "AB", "CB")):
        assert linop(x).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
