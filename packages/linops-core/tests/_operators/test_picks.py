"""Slice, Embed, Downsample, Upsample and Flip; the laws of all run over `picks`."""

from typing import Any

import numpy as np
import pytest
import torch

from linops_core import (
    Diagonal,
    Downsample,
    Embed,
    Flip,
    Identity,
    NamedLinop,
    Slice,
    SplitError,
    Upsample,
)
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND


class TestSlice(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        slices = {"X": slice(1, 4), "Y": slice(None, None, -2)}
        return Slice(slices, [5, 4], shape=("Y", "B", "X"), to=("U", "V"))

    def sizes(self) -> dict[str, int]:
        return {"B": 2}


@pytest.mark.variant
class TestTileOfAnUpsampling(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = Upsample(("X",), [3], [8], [1], shape=("X",), to=("U",))
        return A.split_forward([slice(0, 2)], [slice(2, 7)])


@pytest.mark.variant
class TestEmbed(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Embed({"X": slice(4, 0, -2)}, [5], shape=("X",), to=("U",))


@pytest.mark.variant
class TestDownsample(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Downsample(("X",), [2], [5], [1], shape=("X",), to=("U",))


class TestFlipOfAnySize(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Flip(("X",), shape=("X", "B"))

    def sizes(self) -> dict[str, int]:
        return {"X": 3, "B": 2}


X = torch.arange(24.0).reshape(2, 3, 4)


def test_slices_are_those_of_numpy() -> None:
    A = Slice({"Nx": slice(-2, None), "Ny": slice(3, 0, -2)}, {"Ny": 4, "Nx": 3})
    assert torch.equal(A(X), torch.from_numpy(X.numpy()[:, -2:, 3:0:-2].copy()))
    assert A.oshape == A.ishape == ("...", "Nx", "Ny")
    assert A.sizes("input") == (None, 3, 4) and A.sizes("output") == (None, 2, 2)


def test_a_slice_forwards_is_a_view() -> None:
    y = Slice({"Nx": slice(1, 3)}, [3], shape=("C", "Nx", "Ny"))(X)
    assert y.untyped_storage().data_ptr() == X.untyped_storage().data_ptr()
    assert torch.equal(y, X[:, 1:3])
    assert Downsample(("Ny",), [2], [4])(X).data_ptr() == X.data_ptr()


def test_what_is_embedded_comes_back() -> None:
    slices = {"N": slice(4, None, -3)}
    A = Embed(slices, [6])
    x = torch.tensor([1.0, 2.0])
    assert A(x).tolist() == [0, 2, 0, 0, 1, 0]
    assert A.H(A(x)).tolist() == x.tolist()
    assert isinstance(A.N, Identity) and not isinstance(A.H.N, Identity)
    assert torch.equal(A.H.N(torch.ones(6)), torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0, 0.0]))
    assert torch.equal(Slice(slices, [6]).N.to_dense(), A.H.N.to_dense())


def test_upsampling_is_the_adjoint_of_downsampling() -> None:
    down = Downsample(("N",), [3], [7], [2], to=("M",))
    up = Upsample(("M",), [3], [7], [2], to=("N",))
    assert down(torch.arange(7.0)).tolist() == [2, 5]
    assert torch.equal(up.to_dense(), down.H.to_dense())
    assert isinstance(up.N, Identity)


def test_a_flip_reverses_and_is_its_own_inverse() -> None:
    A = Flip(("Nx", "Ny"))
    assert torch.equal(A(X), X.flip(1, 2))
    assert torch.equal(A.H(A(X)), X)
    assert isinstance(A.N, Identity) and isinstance((A @ A).N, Identity)


def test_tiles_of_a_flip_read_the_mirrored_slice() -> None:
    A = Flip(("N",), {"N": 5}, to=("M",))
    tile = A.split(A, {ND("M"): slice(0, 2)})
    assert tile.support("N") == slice(3, 5)
    both = tile.split(tile, {ND("N"): slice(3, 5)})
    assert both(torch.tensor([4.0, 5.0])).tolist() == [5, 4]
    # In a window that is read from two sides, all else is zero.
    assert A.split(A, {ND("M"): slice(0, 2), ND("N"): slice(0, 4)}).N(torch.ones(4)).tolist() == [
        0, 0, 0, 1,
    ]  # fmt: skip


def test_what_cannot_be_cut_says_what_to_give() -> None:
    A = Flip(("N",))
    with pytest.raises(SplitError, match=r"to= other names for the output, or .*; give sizes=$"):
        A.split(A, {ND("N"): slice(0, 1)})
    B = Slice({"N": slice(1, 3)}, [4])
    with pytest.raises(SplitError, match=r"no slice of the output; give to= other names"):
        B.split(B, {ND("N"): slice(0, 1)})
    C = Flip(("N",), to=("M",))
    with pytest.raises(SplitError, match=r"no slice of the output; give sizes=$"):
        C.split(C, {ND("M"): slice(0, 1)})


def test_the_dimensions_stand_where_the_shape_says() -> None:
    mask = Diagonal(torch.arange(3.0), ("C", "N", "T"), weight_shape=("N",))
    A = Slice({"N": slice(1, 3)}, [3], shape=("C", "N", "T")) @ mask
    y = A(torch.ones(2, 3, 4))
    assert torch.equal(y, torch.tensor([[1.0], [2.0]]).expand(2, 2, 4))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float16, torch.complex64])
def test_outputs_have_the_dtype_of_the_input(dtype: torch.dtype) -> None:
    x = torch.ones(4, dtype=dtype)
    for A in (Flip(("N",)), Slice({"N": slice(1, 3)}, [4]), Upsample(("N",), [2], [8])):
        assert A(x).dtype == A.N(x).dtype == dtype


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Slice([slice(1)], [3]), TypeError, r"must be a mapping .* slice\(2, 5\)}, got \["),  # type: ignore[arg-type]
        (lambda: Slice({"N": 3}, [4]), TypeError, r"N must have a slice, got 3; one element is"),  # type: ignore[dict-item]
        (lambda: Slice({"N": slice(0.5)}, [4]), TypeError, r"N must have a slice of integers, got"),
        (
            lambda: Slice({"N": slice(0, 4, 0)}, [4]),
            TypeError,
            r"Slice: N must have a slice of int",
        ),
        (lambda: Slice({"N": slice(3, 3)}, [4]), ValueError, r"of N, of size 4, must not be empty"),
        (
            lambda: Slice({"N": slice(2)}, [0]),
            ValueError,
            r"Slice: sizes must be positive integers",
        ),
        (lambda: Embed({"N": slice(2)}, [4, 4]), ValueError, r"Embed: sizes must .* got \[4, 4\]"),
        (
            lambda: Slice({"N": slice(2)}, {"M": 4}),
            ValueError,
            r"one for each of \('N',\), got {'M'",
        ),
        (lambda: Slice({"N": slice(2)}, 4), TypeError, r"Slice: sizes must be a sequence, one for"),  # type: ignore[arg-type]
        (lambda: Slice({}, []), ValueError, r"Slice: dims must be different named dimensions"),
        (
            lambda: Downsample(("N",), [0], [4]),
            ValueError,
            r"Downsample: factors must be positive integers",
        ),
        (
            lambda: Upsample(("N",), [2], [4], [4]),
            ValueError,
            r"Upsample: .* got factors \(2,\), off",
        ),
        (
            lambda: Downsample(("N",), [2, 2], [4]),
            ValueError,
            r"each of .* got factors \(2, 2\)",
        ),
        (
            lambda: Downsample(("N",), [2], [4], [0.5]),  # type: ignore[list-item]
            ValueError,
            r"integers from 0 .* \(0.5,\)$",
        ),
        (lambda: Downsample(("N",), 2, [4]), TypeError, r"Downsample: factors must be a sequence"),  # type: ignore[arg-type]
        (lambda: Flip(("N",), [-1]), ValueError, r"Flip: sizes must be positive integers, one for"),
        (lambda: Flip(("N", "N")), ValueError, r"Flip: dims must be different named dimensions"),
    ],
)
def test_what_is_no_such_operator_is_refused(
    make: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_sizes_of_numpy_are_sizes() -> None:
    A = Slice({"N": slice(np.int64(1), np.int64(3))}, np.array([4]))  # type: ignore[arg-type]
    assert A.sizes("output") == (None, 2)


def test_an_input_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Slice: N must have size 4, got 5"):
        Slice({"N": slice(2)}, [4])(torch.ones(5))
