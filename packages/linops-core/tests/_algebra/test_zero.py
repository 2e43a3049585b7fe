from typing import Any

import pytest
import torch

from linops_core import Zero
from nameddim import ND


def test_the_output_has_the_sizes_of_the_input_and_those_given() -> None:
    A = Zero(("...", "N", "B"), ("B", "M", "..."), sizes={"M": 4, "unrelated": 7})
    y = A(torch.ones(2, 3, 5, 6, dtype=torch.complex64))
    assert y.shape == (6, 4, 2, 3) and y.dtype == torch.complex64 and not y.any()
    assert (A.size("M"), A.size("N"), A.size("unrelated")) == (4, None, None)


def test_nameless_dimensions_are_told_apart_by_their_order() -> None:
    assert Zero(("()", "()"))(torch.ones(2, 3)).shape == (2, 3)
    assert Zero(("(1)", "(2)"), ("(2)", "(1)"))(torch.ones(2, 3)).shape == (3, 2)


def test_the_size_of_what_only_the_output_has_must_be_given() -> None:
    A = Zero(("N",), ("M",), sizes={"N": 3})
    with pytest.raises(ValueError, match=r"Zero: the size of M must be given in sizes, for \(N\)"):
        A(torch.ones(3))
    assert A.H(torch.ones(5)).shape == (3,)
    with pytest.raises(ValueError, match=r"Zero: N must have size 3, got 2"):
        A(torch.ones(2))


def test_the_normal_needs_no_size_but_that_of_the_input() -> None:
    N = Zero(("N",), ("M",)).N
    assert N.shape.oshape == ("N",) and N(torch.ones(2)).tolist() == [0.0, 0.0]


def test_tiles_have_the_sizes_of_their_slices_and_other_names_keep_them() -> None:
    A = Zero(("N",), ("M",), sizes={"N": 3, "M": 2})
    tile = A.split(A, {ND("M"): slice(0, 1), ND("N"): slice(1, 3)})
    assert tile(torch.ones(2)).shape == (1,)
    assert tile.H(torch.ones(1)).shape == (2,)
    adjoint = A.adj_split(A.H, {ND("M"): slice(0, 1)})
    assert adjoint(torch.ones(1)).shape == (3,)
    assert A.split(A, {}) is A
    other = A.renamed({ND("M"): ND("N"), ND("N"): ND("K")})
    assert other.ishape == ("K",) and (other.size("K"), other.size("N")) == (3, 2)
    assert A.renamed({ND("Q"): ND("R")}) is A


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex128])
@pytest.mark.parametrize("shape", [(3,), (0,)])
def test_autograd_follows_the_input(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    A = Zero(("N",), ("M",), sizes={"M": 2})
    x = torch.full(shape, torch.inf, dtype=dtype, requires_grad=True)
    y = A(x)
    assert y.dtype == dtype and y.requires_grad and y.is_contiguous()
    assert torch.equal(y, torch.zeros(2, dtype=dtype))
    (gradient,) = torch.autograd.grad(y.abs().square().sum(), x, create_graph=True)
    assert torch.equal(gradient, torch.zeros_like(x)) and gradient.requires_grad
    (second,) = torch.autograd.grad(gradient.abs().square().sum(), x)
    assert torch.equal(second, torch.zeros_like(x))
    with torch.no_grad():
        assert not A(x).requires_grad


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_transforms_of_functions_see_zeros() -> None:
    A = Zero(("N",), ("M",), sizes={"M": 2})
    x = torch.ones(4, 3, dtype=torch.float64)
    y, tangent, *_ = torch.func.jvp(A, (x[0],), (x[1],))
    assert torch.equal(y, torch.zeros(2)) and torch.equal(tangent, torch.zeros(2))
    assert torch.equal(torch.func.jacrev(A)(x[0]), torch.zeros(2, 3))
    assert torch.equal(torch.vmap(A)(x), torch.zeros(4, 2))
    per_row = torch.vmap(torch.func.grad(lambda row: A(row).sum()))
    assert torch.equal(per_row(x), torch.zeros(4, 3))


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ("M", TypeError, "Zero: sizes must be a mapping of dimension to size, got <class 'str'>"),
        (torch.ones(2), TypeError, "Zero: sizes must be a mapping of dimension to size"),
        ({"M": 2.0}, ValueError, r"Zero: the size of M must be an integer of at least 0, got 2\.0"),
        ({"M": -1}, ValueError, "Zero: the size of M must be an integer of at least 0, got -1"),
    ],
)
def test_sizes_that_are_none_are_refused(sizes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Zero(("N",), ("M",), sizes=sizes)
