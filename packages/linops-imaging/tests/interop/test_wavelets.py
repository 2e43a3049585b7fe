"""Transforms of PyWavelets, and of a stand-in for ptwt; ``witnesses`` has ptwt itself."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import NamedLinop
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_imaging import Wavelet, interop

pywt = pytest.importorskip("pywt")


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore:Level value of")
@given(
    st.lists(st.integers(2, 7), min_size=1, max_size=2),
    st.integers(1, 2),
    st.sampled_from(["haar", "db2", "bior1.3"]),
    st.sampled_from(["symmetric", "zero", "periodization", "antireflect"]),
)
def test_any_extension_of_any_size(sizes: list[int], level: int, name: str, mode: str) -> None:
    wavelet = pywt.Wavelet(name)
    if mode == "antireflect" and level == 2:  # PyWavelets refuses to extend a single value
        assume(min(pywt.dwt_coeff_len(n, wavelet.dec_len, mode) for n in sizes) > 1)
    dims = ("Nx", "Ny")[: len(sizes)]
    A = interop.from_pywt(wavelet, dims, sizes, mode, level)
    x = random(2, *sizes)
    expected, _ = pywt.coeffs_to_array(pywt.wavedecn(x[1].numpy(), name, mode, level))
    torch.testing.assert_close(A(x)[1], torch.from_numpy(expected))
    dottest(A, like=x)
    assert A(torch.ones(sizes, dtype=torch.int64)).dtype == torch.float32
    single = A(x.to(torch.complex64))
    torch.testing.assert_close(single, A(x).to(torch.complex64), rtol=0, atol=1e-4)


class TestFilterBank(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return interop.from_pywt("db2", ("Nx", "Ny"), (7, 6), level=2)


def test_filters_count_and_not_the_name() -> None:
    bank = [2 * np.array(taps) for taps in pywt.Wavelet("db2").filter_bank]
    wavelet = pywt.Wavelet("haar", filter_bank=bank)
    A = interop.from_pywt(wavelet, ("N",), [8], "periodization", 1)
    x = random(8)
    expected, _ = pywt.coeffs_to_array(pywt.wavedecn(x.numpy(), wavelet, "periodization", 1))
    torch.testing.assert_close(A(x), torch.from_numpy(expected))


def test_whole_periods_are_our_wavelet() -> None:
    given: Any = {"mode": "periodization", "level": 2}
    assert isinstance(interop.from_pywt("db2", ("N",), [8], **given), Wavelet)
    A = interop.from_pywt("bior1.3", ("N",), [8], **given, out_dims=("M",), batch_shape=("B",))
    assert A.ishape == ("B", "N") and A.oshape == ("B", "M") and A.size("M") == A.size("N") == 8
    assert interop.from_pywt("haar", ("N",), [9]).size("M") is None


@pytest.mark.parametrize("factor", [1, 2])
def test_ptwt_is_compared(factor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def wavedec(x: Tensor, wavelet: Any, *, mode: str, level: int) -> list[Tensor]:
        result = pywt.wavedec(factor * x.numpy(), wavelet, mode, level)
        return [torch.from_numpy(part) for part in result]

    def wavedec2(x: Tensor, wavelet: Any, *, mode: str, level: int) -> tuple[Any, ...]:
        first, *details = pywt.wavedec2(x.numpy(), wavelet, mode, level)
        parts = [tuple(map(torch.from_numpy, part)) for part in details]
        return (torch.from_numpy(first), *parts)

    library = SimpleNamespace(wavedec=wavedec, wavedec2=wavedec2, wavedec3=None)
    monkeypatch.setitem(sys.modules, "ptwt", library)
    if factor == 2:
        with pytest.raises(
            ValueError, match="from_ptwt: the source must compute what the operator"
        ):
            interop.from_ptwt("haar", ("N",), [9])
        return
    x = random(9)
    expected, _ = pywt.coeffs_to_array(pywt.wavedecn(x.numpy(), "haar", "reflect"))
    A = interop.from_ptwt("haar", ("N",), [9])
    torch.testing.assert_close(A(x), torch.from_numpy(expected))
    interop.from_ptwt("db2", ("Nx", "Ny"), [9, 8], level=1)
    with pytest.raises(ValueError, match="from_ptwt: dims must be one to three, got"):
        interop.from_ptwt("haar", ("A", "B", "C", "D"), [2, 2, 2, 2])


def test_a_signal_too_short_for_a_level_is_refused() -> None:
    with pytest.raises(ValueError, match=r"from_pywt: level must be at least 1, got 0 for sizes"):
        interop.from_pywt("db4", ("N",), [5])
    with pytest.raises(TypeError, match=r"from_pywt: level must be an integer, got 1\.5"):
        interop.from_pywt("db4", ("N",), [5], level=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["symmetric", "periodization"])
@pytest.mark.parametrize("out_dims", [("A",), ("A", "B", "C"), ("...", "A")])
def test_each_dimension_has_one_of_coefficients(mode: str, out_dims: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="from_pywt: out_dims must have 2 dimensions"):
        interop.from_pywt("haar", ("Nx", "Ny"), [4, 4], mode, 1, out_dims)
