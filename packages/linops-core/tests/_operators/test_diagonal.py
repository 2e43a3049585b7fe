from typing import Any

import pytest
import torch
from torch import Tensor, nn

from linops_core import Diagonal
from nameddim import ND


def test_known_products() -> None:
    D = Diagonal(torch.tensor([1j, 2.0]), ("N",))
    x = torch.tensor([1.0, 3.0])
    assert D(x).tolist() == [1j, 6]
    assert D.H(x).tolist() == [-1j, 6]
    assert D.N(x).tolist() == D.H.N(x).tolist() == [1, 12]


def test_without_names_any_batch_goes_before_the_axes_of_the_weight() -> None:
    D = Diagonal(torch.arange(6.0).reshape(2, 3))
    assert D.ishape == ("...", "(1)", "(2)")
    assert torch.equal(D(torch.ones(4, 2, 3))[3], D.weight)
    with pytest.raises(ValueError, match=r"Diagonal: \(2\) must have size 3, got 2"):
        D(torch.ones(2, 2))


def test_a_weight_over_some_dimensions_is_not_expanded() -> None:
    weight = nn.Parameter(torch.arange(3.0))
    D = Diagonal.from_weight(weight, ("B",), ("A", "B", "C"))
    assert D.weight is weight
    assert D(torch.ones(2, 3, 4))[1, :, 3].tolist() == [0, 1, 2]
    assert D.aligned_weight(3).shape == (3, 1)


def test_nothing_is_broadcast_that_was_not_asked_for() -> None:
    with pytest.raises(ValueError, match=r"Diagonal: N must have size 1, got 3"):
        Diagonal(torch.ones(1), ("N",))(torch.ones(3))
    with pytest.raises(ValueError, match=r"Diagonal: N must have size 3, got 1"):
        Diagonal(torch.ones(3), ("N",))(torch.ones(1))
    asked = Diagonal(torch.tensor([2.0]), ("N",), ("N",))
    assert asked(torch.ones(3)).tolist() == [2, 2, 2]
    assert asked.H.N(torch.ones(3)).tolist() == [4, 4, 4]


@pytest.mark.parametrize("dims", [("M",), ("...",)])
def test_the_weight_has_dimensions_of_the_input(dims: tuple[str]) -> None:
    with pytest.raises(ValueError, match=r"every dimension of the weight must be one of"):
        Diagonal.from_weight(torch.ones(2), dims, ("...", "N"))


@pytest.mark.parametrize(
    ("weight", "x", "dtype"),
    [
        (torch.float32, torch.complex64, torch.complex64),
        (torch.complex64, torch.float32, torch.complex64),
        (torch.float64, torch.complex64, torch.complex128),
        (torch.complex128, torch.float32, torch.complex128),
    ],
)
def test_dtypes_promote_as_in_torch(
    weight: torch.dtype, x: torch.dtype, dtype: torch.dtype
) -> None:
    D = Diagonal(torch.ones(2, dtype=weight), ("N",))
    results: list[Tensor] = [A(torch.ones(2, dtype=x)) for A in (D, D.H, D.N)]
    assert {y.dtype for y in results} == {dtype}


def test_the_shape_keeps_further_tuples_of_dimensions() -> None:
    D = Diagonal.from_weight(torch.ones(2), ("N",), ("C", "N"), {"coils": ("C",)})
    assert D.shape.coils == ("C",)
    assert D.split(D, {ND("N"): slice(0, 1)}).shape == D.shape


@pytest.mark.parametrize("weight", [None, [1.0, 2.0], Diagonal(torch.ones(2))])
def test_a_weight_that_is_no_tensor_is_refused(weight: Any) -> None:
    with pytest.raises(TypeError, match=r"Diagonal: weight must be a torch.Tensor, got <class"):
        Diagonal(weight)


def test_broadcast_dimensions_that_are_no_names_are_refused() -> None:
    with pytest.raises(TypeError, match="NamedDimension: a name must be a string, got tensor"):
        Diagonal(torch.ones(3), broadcast_dims=torch.ones(2, 3))  # type: ignore[arg-type]  # that is the test
