import torch

from linops_core import FFT, Chain, Dense, Diagonal, NamedLinop, Scalar
from linops_core._base._description import slices_text, tensor_text
from memmap.siblings import bytes_text
from nameddim import ND, NamedShape


def test_bytes_have_the_unit_that_fits() -> None:
    assert [bytes_text(n) for n in (0, 1023, 1024, 3 * 2**19, 5 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 MiB",
        "5.0 GiB",
    ]
    assert bytes_text(2**20 - 1) == "1.0 MiB"  # 1024.0 KiB has another unit
    assert bytes_text(2**55) == "32.0 PiB"


def test_slices_are_written_as_in_an_index() -> None:
    assert slices_text([slice(1, 2), slice(None)]) == "[1:2, :]"


def test_tensors_are_described_without_their_values() -> None:
    meta = torch.empty(2, 3, dtype=torch.complex64, device="meta")
    assert tensor_text("w", meta) == "w: complex64 (2, 3) meta 48 B"
    assert tensor_text("w", meta.expand(4, 2, 3)) == "w: complex64 (4, 2, 3) meta 48 B"


def test_weights_stand_beside_the_names() -> None:
    D = Diagonal(torch.ones(256), ("N",))
    assert repr(D) == "Diagonal (N) -> (N)  weight: float32 (256,) cpu 1.0 KiB"
    tile = D.split(D, {ND("N"): slice(2, 4)})
    assert repr(tile) == "Diagonal (N) -> (N)  weight[2:4]: float32 (256,) cpu 1.0 KiB"
    assert repr(Scalar(2j)) == "Scalar (...) -> (...)  weight: 2j"
    assert repr(Scalar(torch.tensor(2.0))) == "Scalar (...) -> (...)  weight: float32 () cpu 4 B"
    assert repr(FFT(1)) == "FFT (..., Nx) -> (..., Kx)"


def test_a_composition_counts_shared_bytes_once() -> None:
    flat = torch.ones(6)
    A = Chain(Diagonal(flat[:4], ("N",)), Diagonal(flat[2:], ("N",)))
    assert repr(A).splitlines()[0] == "Chain (N) -> (N)  24 B"
    assert repr(Dense(torch.ones(2, 3)).N).splitlines()[0] == "Chain (N) -> (N1)  24 B"


def test_an_operator_of_a_user_shows_its_tensors() -> None:
    class Gain(NamedLinop):
        def __init__(self) -> None:
            super().__init__(NamedShape(("N",)))
            self.register_buffer("gain", torch.ones(2))
            self.register_buffer("nothing", None)

    assert repr(Gain()) == "Gain (N) -> (N)  gain: float32 (2,) cpu 8 B"
