from typing import Any

import pytest
import torch

from linops_core import FFT, Crop, Diagonal, NamedLinop, Pad, PadLast
from linops_core.testing import BaseNamedLinopTests


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
def test_dtypes_stay(dtype: torch.dtype) -> None:
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
        (PadLast, ([4], [2], ("N", "M")), r"PadLast: in_shape and out_shape must be 1 named dim"),
        (PadLast, ([4], [2], ("N",), ("...",), ()), r"PadLast: in_shape and out_shape must be 1"),
        (Crop, ([2], [4], ("()",), ("M",)), r"Crop: in_shape and out_shape must be 1 named"),
    ],
)
def test_what_is_no_pad_or_crop_is_refused(kind: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(*arguments)
