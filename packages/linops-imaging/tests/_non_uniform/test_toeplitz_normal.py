import copy
import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from linops_core import Chain, Diagonal, Identity, NamedLinop
from linops_core.testing import BaseNamedLinopTests
from linops_imaging import NUFFT
from linops_imaging._non_uniform import _toeplitz
from linops_imaging._non_uniform._toeplitz import (
    KernelTransform,
    convolution_sizes,
    write_convolutions,
)
from linops_imaging._non_uniform._toeplitz_normal import ToeplitzNormal
from nameddim import ND

SIZES = (5, 4)


def locations(*lengths: int, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(*lengths, len(sizes), dtype=torch.float64, generator=generator) - 0.5
    return unit * torch.tensor(sizes, dtype=torch.float64)


def transform(locs: Tensor, sizes: tuple[int, ...] = SIZES, **options: object) -> NUFFT:
    given: dict[str, object] = {"batch_shape": ("C",), "toeplitz": True, "tol": 1e-11, **options}
    return NUFFT(locs, sizes, ("K",), **given)  # type: ignore[arg-type]


def kernels(A: NamedLinop) -> list[Tensor]:
    assert isinstance(A, ToeplitzNormal)
    return [kernel.real for ((kernel,),) in A.kernels(torch.float64)]


class TestToeplitz(BaseNamedLinopTests):
    rtol = 1e-8

    def check_followed(
        self, way: str, dtype: torch.dtype = torch.complex128, rtol: float | None = None
    ) -> None:
        # In single precision a kernel and the composition are equal to 2e-5 of the largest sum.
        super().check_followed(way, dtype, rtol and 1e-4)

    def make_linop(self) -> NamedLinop:
        sizes = (3, 2)
        return transform(locations(3, sizes=sizes), sizes)

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.variant
class TestToeplitzOfWeightedFrames(BaseNamedLinopTests):
    rtol = 1e-8

    def make_linop(self) -> NamedLinop:
        locs = locations(2, 5, sizes=(4,))
        weights = torch.rand(2, 5, generator=torch.Generator().manual_seed(0)).double()
        A = NUFFT(locs, (4,), ("T", "K"), batch_shape=("C", "T"), tol=1e-11, toeplitz=True)
        normal = A.normal(Diagonal.from_weight(weights, ("T", "K"), A.oshape))
        assert isinstance(normal, ToeplitzNormal)
        return normal

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 99))
def test_it_is_the_normal_matrix(sizes: list[int], seed: int) -> None:
    A = transform(locations(4, sizes=(*sizes,), seed=seed), (*sizes,), batch_shape=(), tol=1e-6)
    weights = torch.randn(4, dtype=torch.float64)
    D = Diagonal(weights, ("K",))
    matrix = A.to_dense()
    for normal, inside in ((A.N, matrix), (A.normal(D), weights.unsqueeze(1) * matrix)):
        assert isinstance(normal, ToeplitzNormal)
        error = (normal.to_dense() - matrix.mH @ inside).abs().max()
        assert error <= 1e-5 / math.prod(sizes) * 4 * weights.abs().max().clamp(min=1)


class Storages(TorchDispatchMode):
    """Notes the bytes of the largest storage that an operation makes."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.largest = max(self.largest, result.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize("sizes", [(9,), (6, 7), (5, 4, 6)])
@pytest.mark.parametrize("step", [1, 400, 2**20])
def test_parts_of_any_size_give_the_same_and_the_padded_image_is_never_whole(
    sizes: tuple[int, ...], step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    A = transform(locations(7, sizes=sizes), sizes)
    x = torch.randn(3, *sizes, dtype=torch.complex64)
    wanted = A.H(A(x))
    monkeypatch.setattr(_toeplitz, "_STEP", step)
    torch.testing.assert_close(A.N(x), wanted, rtol=0, atol=1e-4)
    result, kernel = torch.empty_like(x), vars(A.N)["_kept"]._made[1]
    (kernel,) = kernel.values()
    assert kernel.untyped_storage().nbytes() == 4 * math.prod(convolution_sizes(sizes))
    with Storages() as made:  # type: ignore[no-untyped-call]
        write_convolutions(x[:, None], [[KernelTransform(kernel)]], sizes, into=result[:, None])
    torch.testing.assert_close(result, wanted, rtol=0, atol=1e-4)
    if step == 1:
        assert made.largest <= max(x.nbytes, 8 * sizes[0] * math.prod(convolution_sizes(sizes)[1:]))


def test_it_computes_no_values_at_the_locations(monkeypatch: pytest.MonkeyPatch) -> None:
    A = transform(locations(7))
    x = torch.randn(2, *SIZES, dtype=torch.complex128)
    expected = A.H(A(x))
    A.N(x)

    def refused(linop: NamedLinop, x: Tensor) -> Tensor:
        raise AssertionError("the chain must not be applied")

    monkeypatch.setattr(Chain, "fn", staticmethod(refused))
    torch.testing.assert_close(A.N(x), expected, atol=1e-8, rtol=0)


def test_the_normal_of_a_weighted_transform_convolves() -> None:
    A, weights = transform(locations(7)), torch.randn(7, dtype=torch.complex128)
    W = Diagonal.from_weight(weights, ("K",), ("C", "K"))
    normal = (W @ A).N
    assert isinstance(normal, ToeplitzNormal)
    x = torch.randn(2, *SIZES, dtype=torch.complex128)
    torch.testing.assert_close(normal(x), A.H(weights.abs() ** 2 * A(x)), atol=1e-8, rtol=0)


@pytest.mark.parametrize(
    "inner",
    [
        Diagonal.from_weight(torch.randn(7, dtype=torch.complex128), ("K",), ("C", "K")),
        Diagonal(torch.rand(2, 7, dtype=torch.float64), ("C", "K")),
        Diagonal.from_weight(torch.rand(7), ("K",), ("C", "K")) + Identity(("C", "K")),
    ],
)
def test_what_is_no_convolution_of_real_weights_is_right_too(inner: NamedLinop) -> None:
    A = transform(locations(7))
    x = torch.randn(2, *SIZES, dtype=torch.complex128)
    torch.testing.assert_close(A.normal(inner)(x), A.H(inner(A(x))), atol=1e-8, rtol=0)


def test_weights_may_be_of_points_in_any_place_of_the_batch() -> None:
    A = NUFFT(locations(2, 7), SIZES, ("T", "K"), batch_shape=("...", "T", "C"), toeplitz=True,
              tol=1e-11)  # fmt: skip
    x = torch.randn(3, 2, 2, *SIZES, dtype=torch.complex128)
    for shape, dims in (((7, 2), ("K", "T")), ((7,), ("K",)), ((2,), ("T",))):
        D = Diagonal.from_weight(torch.rand(shape, dtype=torch.float64), dims, A.oshape)
        normal = A.normal(D)
        assert isinstance(normal, ToeplitzNormal)
        torch.testing.assert_close(normal(x), A.H(D(A(x))), atol=1e-8, rtol=0)


def written(tensor: Tensor, owner: nn.Module, name: str) -> None:
    tensor.mul_(0.9)


def replaced(tensor: Tensor, owner: nn.Module, name: str) -> None:
    setattr(owner, name, 0.8 * tensor)


@pytest.mark.parametrize("change", [written, replaced])
def test_no_kernel_is_stale(change: Callable[[Tensor, nn.Module, str], None]) -> None:
    A, D = transform(locations(7)), Diagonal.from_weight(torch.rand(7), ("K",), ("C", "K"))
    x = torch.randn(2, *SIZES, dtype=torch.complex128)
    for normal, owner, name in ((A.N, A.interpolate, "locs"), (A.normal(D), D, "weight")):
        inner = D if owner is D else Identity(A.oshape)
        assert isinstance(normal, ToeplitzNormal)
        tile = normal.split(normal, {ND("C"): slice(0, 1)})
        before = normal(x)
        change(getattr(owner, name), owner, name)
        expected = A.H(inner(A(x)))
        assert not torch.allclose(before, expected)
        torch.testing.assert_close(normal(x), expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(tile(x[:1]), expected[:1], atol=1e-6, rtol=0)


def test_gradients_to_weights_are_those_of_the_composition() -> None:
    A = transform(locations(7))
    weights = torch.rand(7, dtype=torch.float64, requires_grad=True)
    normal = A.normal(Diagonal.from_weight(weights, ("K",), A.oshape))
    x = torch.randn(2, *SIZES, dtype=torch.complex128)
    (result,) = torch.autograd.grad(normal(x).abs().square().sum(), weights)
    (expected,) = torch.autograd.grad(A.H(weights * A(x)).abs().square().sum(), weights)
    torch.testing.assert_close(result, expected)


def test_a_kernel_is_made_once_and_shared_by_tiles() -> None:
    locs = locations(3, 7)
    A = NUFFT(locs, SIZES, ("T", "K"), batch_shape=("C", "T"), tol=1e-6, toeplitz=True)
    own = kernels(A.N)
    assert [kernel.shape for kernel in own] == [convolution_sizes(SIZES)] * 3
    assert {kernel.dtype for kernel in own} == {torch.float64}
    for linop in (A.N, A.N.H, A.N.split(A.N, {ND("C"): slice(1, 2)})):
        assert all(a is b for a, b in zip(kernels(linop), own, strict=True))
    some = kernels(A.N.split(A.N, {ND("T"): slice(1, 3)}))
    assert all(a is b for a, b in zip(some, own[1:], strict=True))


def test_single_precision_has_kernels_of_single_precision() -> None:
    A = transform(locations(7), tol=1e-4)
    x = torch.randn(2, *SIZES, dtype=torch.complex64)
    y = A.N(x)
    kept = vars(A.N)["_kept"]._made[1].values()
    assert y.dtype is torch.complex64 and {kernel.dtype for kernel in kept} == {torch.float32}
    torch.testing.assert_close(y, A.H(A(x)), atol=1e-4, rtol=0)


def test_copies_have_kernels_of_their_own() -> None:
    A = transform(locations(7))
    (kernel,) = kernels(A.N)
    for other in (copy.deepcopy(A.N), pickle.loads(pickle.dumps(A.N))):
        (result,) = kernels(other)
        assert result is not kernel and torch.equal(result, kernel)


def test_tiles_of_points_add_up() -> None:
    A = transform(locations(7))
    x = torch.randn(2, *SIZES, dtype=torch.complex128)
    tiles = [A.N.split(A.N, {ND("K"): piece}) for piece in (slice(0, 3), slice(3, 7))]
    torch.testing.assert_close(sum(tile(x) for tile in tiles), A.N(x))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float16])
def test_squares_of_weights_of_a_small_range_are_held(dtype: torch.dtype) -> None:
    A = transform(locations(7))
    weights = torch.tensor([0, 1, 1, 200, 250, 255, 3], dtype=torch.float64)
    scale = 100 if dtype == torch.float16 else 1
    W = Diagonal.from_weight((scale * weights).to(dtype), ("K",), A.oshape)
    x = torch.randn(2, *SIZES, dtype=torch.complex128)
    torch.testing.assert_close((W @ A).N(x), A.H(W.H(W(A(x)))))


@pytest.mark.parametrize("n_frames", [0, 2])
def test_an_empty_batch_has_an_empty_result(n_frames: int) -> None:
    batch = ("C", "T")
    A = NUFFT(locations(n_frames, 7), SIZES, ("T", "K"), batch_shape=batch, toeplitz=True)
    y = A.N(torch.ones(2 - n_frames, n_frames, *SIZES))
    assert y.shape == (2 - n_frames, n_frames, *SIZES) and y.dtype is torch.complex64


@pytest.mark.parametrize("sizes", [(4,), (3, 4), (2, 3, 2)])
def test_without_points_it_is_zero(sizes: tuple[int, ...]) -> None:
    names = {"output_shape": ("T", "K"), "batch_shape": ("T",), "toeplitz": True}
    A = NUFFT(torch.zeros(2, 0, len(sizes)), sizes, **names)  # type: ignore[arg-type]
    x = torch.randn(2, *sizes)
    assert torch.equal(A.N(x), torch.zeros(2, *sizes, dtype=torch.complex64))


def test_inputs_that_do_not_fit_are_refused() -> None:
    A = transform(locations(7))
    with pytest.raises(ValueError, match=r"NUFFT\.N: Ny must have size 4, got 3"):
        A.N(torch.ones(2, 5, 3))
    with pytest.raises(ValueError, match=r"NUFFT.*must be on the device of the locations"):
        A.N(torch.ones(2, 5, 4, device="meta"))
