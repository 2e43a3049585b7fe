"""Inner products and norms are right to the precision of the entries, for vectors of any length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from linops_core._kernels._inner_products import (
    host_numbers,
    host_products_and_norms,
    inner_products,
    norm,
    squared_norm,
    vdot,
)

SINGLE = (torch.float32, torch.complex64)


def constant(n: int, dtype: torch.dtype) -> Tensor:
    """Return equal numbers: their rounding has one sign, so it adds up."""
    return torch.full((n,), 0.1, dtype=dtype) * ((0.6 + 0.8j) if dtype.is_complex else 1.7)


def wide(x: Tensor) -> Tensor:
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def error(result: Tensor, expected: Tensor) -> float:
    return float(((result - expected).abs() / expected.abs()).max())


@pytest.mark.parametrize("dtype", SINGLE)
@pytest.mark.parametrize("n", [2**11, 2**16 + 5, 2**20 + 3])
def test_sums_of_many_entries_are_as_exact_as_the_entries(dtype: torch.dtype, n: int) -> None:
    torch.manual_seed(n)
    for x in (constant(n, dtype), torch.randn(n, dtype=dtype)):
        z = x + constant(n, dtype)
        assert error(vdot(x, z), torch.vdot(wide(x), wide(z))) < 5e-6
        expected = torch.linalg.vector_norm(wide(x))
        assert max(error(norm(x), expected), error(squared_norm(x), expected**2)) < 5e-6
        rows = torch.stack([x, z])
        assert error(inner_products(rows, x), wide(rows).conj() @ wide(x)) < 5e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(dtype: torch.dtype) -> None:
    x = torch.full((2**16,), 0.0101, dtype=dtype)
    for n in (10, len(x)):
        assert error(norm(x[:n]), norm(x[:n].double())) < torch.finfo(dtype).eps
        assert error(vdot(x[:n], x[:n]), x[:n].double().square().sum()) < torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [*SINGLE, torch.float64, torch.complex128])
@given(data=st.data())
def test_vectors_of_any_layout_and_batch(dtype: torch.dtype, data: Any) -> None:
    torch.manual_seed(data.draw(st.integers(0, 2**16)))
    sides = data.draw(st.permutations([1, 3, 5, data.draw(st.sampled_from([2, 2**11, 2**15]))]))
    order = data.draw(st.permutations(range(4)))
    x = torch.randn([sides[axis] for axis in order], dtype=dtype).permute(*order)
    z = x.clone().contiguous().roll(1, data.draw(st.integers(0, 3))).conj() + x
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, 3)))))
    others = [axis for axis in range(4) if axis not in axes]
    products, squares = wide(x).conj() * wide(z), wide(x).abs().square()
    if others:
        products, squares = products.sum(others), squares.sum(others)
    # Double precision is summed by torch.
    precision = torch.finfo(dtype).eps * (1 if dtype in SINGLE else 64)
    size = (squares * wide(z).abs().square().sum()).sqrt()
    assert bool(((vdot(x, z, axes) - products).abs() <= 64 * precision * size).all())
    assert bool(((norm(x, axes) - squares.sqrt()).abs() <= 64 * precision * squares.sqrt()).all())
    assert vdot(x, z, axes).dtype == dtype
    assert norm(x, axes).dtype == squared_norm(x, axes).dtype == dtype.to_real()


class _Largest(TorchDispatchMode):
    """The largest memory that an operation makes."""

    nbytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [arg for arg in (*args, *(kwargs or {}).values()) if isinstance(arg, Tensor)]
        if isinstance(result, Tensor):
            storage = result.untyped_storage()
            if storage.data_ptr() not in [one.untyped_storage().data_ptr() for one in given]:
                self.nbytes = max(self.nbytes, storage.nbytes())
        return result


@pytest.mark.parametrize("dtype", [*SINGLE, torch.float64])
def test_there_is_no_temporary_of_the_size_of_a_vector(dtype: torch.dtype) -> None:
    x = torch.randn(4, 2**6, 2**10, dtype=dtype)
    for tensor in (x, x.mT, x.permute(2, 0, 1)):
        with _Largest() as largest:  # type: ignore[no-untyped-call]
            vdot(tensor, tensor.contiguous() if tensor is x else x.reshape(tensor.shape))
            norm(tensor)
        assert largest.nbytes <= 2**16 * x.element_size()


@pytest.mark.parametrize("dtype", SINGLE)
def test_first_and_second_derivatives(dtype: torch.dtype) -> None:
    x = torch.randn(2, 2**11 + 2**17, dtype=dtype)
    x[1, 100:3000] = 0  # rows of zeros within a vector
    z = torch.randn_like(x)

    def loss(x: Tensor, z: Tensor) -> Tensor:
        total = norm(x) + norm(x, (0,)).sum() + vdot(x, z).abs()
        return total + vdot(x, z, (0,)).abs().sum()

    def derivatives(x: Tensor, z: Tensor, function: Any) -> list[Tensor]:
        x = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(x, z), x, create_graph=True)
        product = (first.conj() * z).sum().real
        return [first.detach(), *torch.autograd.grad(product, x)]

    def plain(x: Tensor, z: Tensor) -> Tensor:
        rows = x.square().sum(1) if not x.is_complex() else (x.conj() * x).real.sum(1)
        products = (x.conj() * z).sum(1)
        return rows.sum().sqrt() + rows.sqrt().sum() + products.sum().abs() + products.abs().sum()

    result, expected = derivatives(x, z, loss), derivatives(wide(x), wide(z), plain)
    for one, other in zip(result, expected, strict=True):
        assert float((one - other).abs().max()) < 1e-5 * float(other.abs().max())
    zeros = torch.zeros(2**12, dtype=dtype, requires_grad=True)
    assert not torch.autograd.grad(norm(zeros), zeros)[0].any()


def test_transforms_of_torch_func_and_graphs() -> None:
    x, z = torch.randn(2, 3, 2**12)
    both = torch.func.vmap(lambda x, z: (vdot(x, z), norm(x)))
    torch.testing.assert_close(both(x, z), (vdot(x, z, (0,)), norm(x, (0,))))
    slopes = torch.func.vmap(torch.func.grad(lambda x: norm(x)))(x)
    torch.testing.assert_close(slopes, x / norm(x, (0,))[:, None])

    class Module(torch.nn.Module):
        def forward(self, x: Tensor, z: Tensor) -> tuple[Tensor, ...]:
            return vdot(x, z), norm(x), vdot(x, z, (0,)), norm(x, (0,))

    long = torch.randn(2, 2, 2**18)
    program = torch.export.export(Module(), (long[0], long[1]), strict=False)
    assert len(program.graph.nodes) < 40
    torch.testing.assert_close(program.module()(*long), Module()(*long))


def test_values_on_the_meta_device_have_shapes() -> None:
    x = torch.empty(3, 2**18, device="meta", dtype=torch.complex64)
    assert vdot(x, x).shape == norm(x).shape == ()
    assert vdot(x, x, (0,)).shape == norm(x, (0,)).shape == (3,)


class Elsewhere(Tensor):
    """A tensor that says that it is not on the CPU."""

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return False


@pytest.mark.parametrize("kind", [Tensor, Elsewhere])
def test_numbers_of_scalars_are_complex_where_the_scalars_are(kind: type[Tensor]) -> None:
    scalars = [torch.tensor(value).as_subclass(kind) for value in (2.0, 3j, 4.0)]
    assert [*map(repr, host_numbers(*scalars))] == ["2.0", "3j", "4.0"]
    assert [*map(repr, host_numbers(scalars[0], scalars[2]))] == ["2.0", "4.0"]


@pytest.mark.parametrize("kind", [Tensor, Elsewhere])
def test_products_and_norms_are_numbers(kind: type[Tensor]) -> None:
    x, z = (torch.tensor(values).as_subclass(kind) for values in ([3j, 4.0], [1j, 1.0]))
    assert host_products_and_norms([(x, z)], [x]) == ([7.0 + 0j], [5.0])
    assert host_products_and_norms([(x.imag, z.imag)], []) == ([3.0], [])
