import pytest
import torch

from linops_core._kernels._dtype import in_precision_of

FLOATS = {
    16: (torch.float16, torch.complex32),
    32: (torch.float32, torch.complex64),
    64: (torch.float64, torch.complex128),
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("bits", FLOATS)
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("wanted", [0, 1])
@pytest.mark.parametrize("precision", FLOATS)
def test_the_precision_changes_and_the_kind_stays(
    bits: int, kind: int, wanted: int, precision: int
) -> None:
    tensor = torch.empty(1, dtype=FLOATS[bits][kind])
    assert in_precision_of(tensor, FLOATS[precision][wanted]) == FLOATS[precision][kind]


def test_integers_and_no_wish_stay() -> None:
    assert in_precision_of(torch.tensor([1]), torch.float32) == torch.int64
    assert in_precision_of(torch.tensor([1.0]), None) == torch.float32


def test_complex_numbers_stay_as_they_are_in_bfloat16() -> None:
    assert in_precision_of(torch.tensor([1.0]), torch.bfloat16) == torch.bfloat16
    assert in_precision_of(torch.tensor([1j]), torch.bfloat16) == torch.complex64


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float8_e5m2])
def test_what_has_no_precision_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=r"precision of an operator must be .*, got torch"):
        in_precision_of(torch.tensor([1.0]), dtype)
