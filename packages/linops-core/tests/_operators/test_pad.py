"""Pads and crops, about the centre and at the end."""

from typing import Any

import pytest
import torch

from linops_core import (
    FFT,
    Crop,
    Diagonal,
    Identity,
    NamedLinop,
    Pad,
    PadDim,
    PadLast,
    Role,
    SplitError,
    Truncate,
)
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND


class TestPadLast(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return PadLast([4, 5], [3, 2], ("X", "Y"), ("U", "V"), ("B",))

    def sizes(self) -> dict[str, int]:
        return {"B": 2}


class TestCrop(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Crop([3, 2], [4, 5])


def test_pad_is_another_name() -> None:
    assert Pad is PadLast


def test_the_centre_stays_the_centre() -> None:
    for n in range(1, 6):
        for m in range(n, 8):
            centre = torch.zeros(n)
            centre[n // 2] = 1
            padded = PadLast([m], [n])(centre)
            assert padded.argmax() == m // 2 and padded.sum() == 1
            assert torch.equal(Crop([n], [m])(padded), centre)


def test_a_padded_spectrum_is_that_of_the_interpolated_image() -> None:
    # A wave with three turns, sampled at 9 and at 12 points; both have a point at the centre.
    def wave(n: int) -> torch.Tensor:
        at = (torch.arange(n, dtype=torch.float64) - n // 2) / n
        return torch.exp(2j * torch.pi * 3 * at)

    grids = ["N", "K"], ["M", "L"]
    to_spectrum = FFT(1, (), (grids[0][:1], grids[0][1:]), "forward", centered=True)
    to_image = FFT(1, (), (grids[1][:1], grids[1][1:]), "forward", centered=True)
    pad = PadLast([12], [9], ("K",), ("L",), ())
    interpolate = 12 * to_image.H @ pad @ to_spectrum
    torch.testing.assert_close(interpolate(wave(9)), wave(12))


def test_names_are_those_of_images_with_the_next_index_in_the_output() -> None:
    A = PadLast([4, 4], [2, 2])
    assert A.ishape == ("...", "Nx", "Ny") and A.oshape == ("...", "Nx1", "Ny1")
    taken = Crop([2], [4], ("Nx",), batch_shape=("Nx1", "C"))
    assert taken.oshape == ("Nx1", "C", "Nx2")


def test_sizes_are_known_to_neighbours() -> None:
    with pytest.raises(ValueError, match=r"Nx1 must have one size, got 4"):
        Diagonal(torch.ones(5), ("Nx1",)) @ PadLast([4], [2], batch_shape=())
    with pytest.raises(ValueError, match=r"PadLast: Nx must have size 2, got 3"):
        PadLast([4], [2])(torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.float16, torch.int64])
def test_outputs_have_the_dtype_of_the_input(dtype: torch.dtype) -> None:
    x = torch.ones(2, dtype=dtype)
    assert PadLast([4], [2])(x).dtype == Crop([1], [2])(x).dtype == dtype


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (PadLast, ([3], [4]), r"PadLast: pad_im_size must be at least im_size .*, got \(3,\) for"),
        (Crop, ([5], [4]), r"Crop: crop_im_size must be at most im_size .*, got \(5,\) for \(4,"),
        (PadLast, ([4, 4], [2]), r"PadLast: there must be as many sizes .* got \(4, 4\) for \(2,"),
        (Crop, ([], []), r"Crop: there must be as many sizes .* at least one, .* got \(\)"),
        (Crop, ([0], [4]), r"Crop: .* all positive integers, got \(0,\) for \(4,\)"),
        (PadLast, ([4.5], [2]), r"PadLast: .* all positive integers, got \(4.5,\) for \(2,\)"),
        (PadLast, ([4], [2], ("N", "M")), r"PadLast: in_shape must have 1 dimensions for"),
        (PadLast, ([4], [2], ("N",), ("...",), ()), r"PadLast: out_shape must have 1 dimensions"),
        (Crop, ([2], [4], ("()",), ("M",)), r"Crop: dimensions of the grid must have names"),
    ],
)
def test_what_is_no_pad_or_crop_is_refused(kind: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(*arguments)


class TestPadDim(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return PadDim("T", 2, 5, ("T", "..."), ("S", "..."))


class TestTruncate(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Truncate("T", 5, 3, ("A", "T", "B"), ("A", "S", "B"))

    def sizes(self) -> dict[str, int]:
        return {"A": 2, "B": 2}


def test_zeros_come_behind_the_end_and_the_end_is_cut_off() -> None:
    x = torch.arange(1.0, 7.0).reshape(2, 3)
    assert PadDim("A", 2, 3, "AB", "CB")(x).tolist() == [[1, 2, 3], [4, 5, 6], [0, 0, 0]]
    assert Truncate("B", 3, 1, "AB", "AC")(x).tolist() == [[1], [4]]
    assert Truncate("B", 3, 1, "AB", "AC").N(x).tolist() == [[1, 0, 0], [4, 0, 0]]
    assert isinstance(PadDim("A", 2, 3, "AB", "CB").N, Identity)


@pytest.mark.parametrize("dim", ["T", 1, -2])
def test_the_dimension_is_given_by_its_name_or_its_position(dim: str | int) -> None:
    A = Truncate(dim, 3, 2, ("...", "T", "N"), ("...", "T1", "N"))
    assert (A.size("T"), A.size("T1")) == (3, 2)
    assert A(torch.ones(4, 5, 3, 6)).shape == (4, 5, 2, 6)
    assert A(torch.ones(3, 6)).shape == (2, 6)


def test_a_dimension_before_an_ellipsis_counts_from_the_start() -> None:
    A = PadDim(0, 2, 4, ("T", "..."), ("T", "..."))
    assert A(torch.ones(2, 3, 5)).shape == (4, 3, 5)
    assert A.H(torch.ones(4)).shape == (2,)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (PadDim, ("T", 4, 2, "T", "S"), r"PadDim: lengths must be .* at least .* got 4 to 2"),
        (PadDim, ("T", 0, 2, "T", "S"), r"PadDim: lengths must be positive .* got 0 to 2"),
        (PadDim, ("T", 1.5, 2, "T", "S"), r"PadDim: lengths must be positive integers .* got 1.5"),
        (Truncate, ("T", 2, 4, "T", "S"), r"Truncate: lengths must be .* at most .* got 2 to 4"),
        (Truncate, ("T", 2, 0, "T", "S"), r"Truncate: lengths must be positive .* got 2 to 0"),
        (PadDim, ("Q", 2, 4, "T", "S"), r"PadDim: dim must be a named dimension .* got 'Q'"),
        (PadDim, (1, 2, 4, "T", "S"), r"or its position there, got 1"),
        (PadDim, (0, 2, 4, ("...", "T"), ("...", "S")), r"must be a named dimension .* got 0"),
        (
            PadDim,
            ("T", 2, 4, "TN", "SM"),
            r"oshape must equal ishape except for T, got \(T, N\) -> \(S",
        ),
        (PadDim, ("T", 2, 4, "TN", "S"), r"oshape must equal ishape except for T"),
        (PadDim, ("T", 2, 4, ("T",), ("()",)), r"the dimension must have a name on both sides"),
    ],
)
def test_what_is_no_such_change_is_refused(kind: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(*arguments)


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
    with pytest.raises(SplitError, match=r"cannot be split: it is in the input and in the output"):
        linop.split(linop, {ND("N"): slice(0, 1)})
    with pytest.raises(ValueError, match=r"N must have size 2, got 4 in an input"):
        linop(torch.ones(4))
    for wrong in (linop.H, linop.H.N):
        with pytest.raises(ValueError, match=r"N must have size 4, got 1 in an input"):
            wrong(torch.ones(1))


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


def test_zeros_may_go_before_the_first_element() -> None:
    A = PadDim("T", 2, 5, ("...", "T"), ("...", "T1"), before=1)
    assert A(torch.tensor([1.0, 2.0])).tolist() == [0, 1, 2, 0, 0]
    B = Truncate("T1", 5, 2, ("...", "T1"), ("...", "T"), before=1)
    assert B(torch.arange(5.0)).tolist() == [1, 2]
    assert torch.equal(B.to_dense(), A.H.to_dense())
    for before in (-1, 4, 0.5):
        with pytest.raises(ValueError, match=rf"before must .* from 0 to 3, .* got {before}"):
            PadDim("T", 2, 5, ("T",), ("T1",), before=before)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Truncate: before must .* as 5 become 2, got 4"):
        Truncate("T", 5, 2, ("T",), ("T1",), before=4)
