import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from linops_core import Diagonal, Identity, NamedLinop
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND


class TestRootOfADiagonal(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        weight = torch.tensor([1 + 2j, -1 + 0.5j, 3 - 1j], dtype=torch.complex128)
        return Diagonal(nn.Parameter(weight), ("N",)) ** 0.5


@pytest.mark.variant
class TestTileOfAnInverse(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        weight = torch.tensor([1 + 2j, -1 + 0.5j, 3 - 1j], dtype=torch.complex128)
        A = Diagonal(nn.Parameter(weight), ("N",)) ** -1
        return A.split(A, {ND("N"): slice(1, 3)})


def test_known_products() -> None:
    D = Diagonal(torch.tensor([1j, 2.0]), ("N",))
    x = torch.tensor([1.0, 3.0])
    assert D(x).tolist() == [1j, 6]
    assert D.H(x).tolist() == [-1j, 6]
    assert D.N(x).tolist() == D.H.N(x).tolist() == [1, 12]


@pytest.mark.parametrize("dims", [("C", "N"), ("N", "C"), ("...", "C", "N")])
def test_a_weight_may_lack_the_dimensions_in_which_it_is_broadcast(dims: tuple[str, ...]) -> None:
    w = torch.tensor([1.0, 2.0, 3.0])
    D = Diagonal(w, dims, broadcast_dims=("C",))
    x = torch.ones([{"C": 2, "N": 3}.get(dim, 1) for dim in dims])
    assert D(x).sum([axis for axis, dim in enumerate(dims) if dim != "N"]).tolist() == [2, 4, 6]
    with pytest.raises(ValueError, match=r"weight must have 2 dimensions for weight_shape"):
        Diagonal(w, ("C", "N"), broadcast_dims=())


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


def test_known_powers() -> None:
    D = Diagonal(torch.tensor([4.0, 9.0]), ("N",))
    x = torch.ones(2)
    assert (D**0.5)(x).tolist() == (D**0.5).H(x).tolist() == [2, 3]
    assert (D**0.5).N(x).tolist() == ((D**0.5) ** 2)(x).tolist() == [4, 9]
    assert (D**-0.5)(x).tolist() == [1 / 2, pytest.approx(1 / 3)]
    assert ((D**-1) @ D)(x).tolist() == [1, 1]
    assert (D**2.0)(x).tolist() == (D**2)(x).tolist() == [16, 81]
    assert isinstance(D**0, Identity)
    assert repr(D**0.5).endswith("cpu 8 B ** 0.5")


def test_powers_of_complex_weights_are_the_principal_ones() -> None:
    D = Diagonal(torch.tensor([-4 + 0j, 2j]), ("N",))
    expected = torch.tensor([2j, 1 + 1j])
    torch.testing.assert_close((D**0.5)(torch.ones(2)), expected)
    torch.testing.assert_close((D**0.5).H(torch.ones(2)), expected.conj())
    # Not the power 0.75, which the angle of the first one does not have.
    torch.testing.assert_close(((D**1.5) ** 0.5)(torch.ones(2))[0], (torch.tensor(-8j)) ** 0.5)


def test_a_power_of_integers_is_of_the_default_dtype() -> None:
    D = Diagonal(torch.tensor([1, 4]), ("N",))
    assert (D**0.5)(torch.ones(2)).tolist() == [1, 2]
    assert (D**-1)(torch.ones(2)).tolist() == [1, 0.25]


def test_a_power_follows_the_weight_and_passes_gradients_on() -> None:
    weight = nn.Parameter(torch.tensor([4.0, 9.0]))
    root = Diagonal(weight, ("N",)) ** 0.5
    (root(torch.ones(2))).sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, torch.tensor([1 / 4, 1 / 6]))
    with torch.no_grad():
        weight.copy_(torch.tensor([16.0, 25.0]))
    assert root(torch.ones(2)).tolist() == copy.deepcopy(root)(torch.ones(2)).tolist() == [4, 5]


def test_a_power_that_is_no_number_is_refused() -> None:
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    root = Diagonal(weight, ("N",)) ** 0.5
    with torch.no_grad():
        weight[1] = -2
    rule = r"Diagonal \(N\) -> \(N\): the weight must not be negative anywhere for the power 0.5, "
    with pytest.raises(ValueError, match=rf"{rule}got -2; .* principal ones: make them complex"):
        root(torch.ones(2))
    with pytest.raises(ValueError, match=rule):
        Diagonal(weight, ("N",)) ** 0.5
    assert (Diagonal(weight, ("N",)) ** -1)(torch.ones(2)).tolist() == [1, -0.5]
    for zeros in (torch.tensor([1.0, 0.0]), torch.tensor([1j, 0j]), torch.tensor([1, 0])):
        with pytest.raises(ValueError, match=r"must not be zero anywhere for the power -1.0, got"):
            Diagonal(zeros, ("N",)) ** -1
    with pytest.raises(ValueError, match="the exponent must be finite, got nan"):
        Diagonal(torch.ones(2)) ** float("nan")
    with pytest.raises(
        TypeError, match=r"must be an integer, got 1j; only a Diagonal has .* real ones"
    ):
        Diagonal(torch.ones(2)) ** 1j  # type: ignore[operator]  # that is the test


def test_a_tile_without_the_negative_weights_has_a_power() -> None:
    A = Diagonal(torch.tensor([4.0, -1.0]), ("N",))
    assert (A.split(A, {ND("N"): slice(0, 1)}) ** 0.5)(torch.ones(1)).tolist() == [2]
