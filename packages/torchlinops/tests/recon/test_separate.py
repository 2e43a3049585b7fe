"""Slices and frames are separate images: none depends on the others in the same array.

Shapes: S slices, T frames, C coils, N pixels, K samples.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchlinops as tl
from torchlinops import recon

N = (8, 6)
TIGHT: dict[str, dict[str, Any]] = {
    "sense": {"ridge": 0.1, "tol": 1e-9, "max_num_iters": 100},
    "l1_wavelet": {"weight": 0.05, "wavelet": "haar", "tol": 1e-7, "max_num_iters": 400},
    "total_variation": {"weight": 0.05, "tol": 1e-6, "max_num_iters": 400},
    "low_rank_plus_sparse": {
        **{"low_rank_weight": 0.05, "sparse_weight": 0.1},
        **{"tol": 1e-7, "max_num_iters": 400},
    },
}
IMAGES: list[Callable[..., Any]] = [recon.sense, recon.l1_wavelet, recon.total_variation]
FUNCTIONS = [*IMAGES, recon.low_rank_plus_sparse]


def scan(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return k-space (S, T, C, K), maps (C, N) and weights (S, T, K) of unlike slices."""
    generator = torch.Generator().manual_seed(seed)
    kspace, maps = (
        torch.randn(*shape, *N, dtype=torch.complex128, generator=generator)
        for shape in ((3, 2, 4), (4,))
    )
    weights = torch.rand(3, 2, *N, generator=generator) > 0.3
    return kspace, maps / maps.norm(dim=0), weights


def images(function: Callable[..., Any], kspace: Tensor, *args: Any, **options: Any) -> Tensor:
    """Return the image (S, T, N) or (T, N); both parts of a series, one after the other."""
    dims = ("S", "T", "C", "Kx", "Ky")[-kspace.ndim :]
    result = function(kspace, dims, *args, **{**TIGHT[function.__name__], **options})
    return torch.cat([*result], -1) if isinstance(result, tuple) else result


@pytest.mark.parametrize("memory", [None, "12 kB"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_slice_is_the_same_alone(function: Callable[..., Any], memory: str | None) -> None:
    kspace, maps, weights = scan()
    scales = torch.tensor([1e-6, 0.0, 1.0]).view(-1, 1, 1, 1, 1)
    # Maps of each slice, in units of its own.
    own = maps * torch.tensor([1.0, 1.0, 10.0]).view(-1, 1, 1, 1, 1).expand(3, 2, 1, 1, 1)
    stack = scales * kspace
    result = images(function, stack, own, weights=weights, memory=memory)
    for one, y, s, w in zip(result, stack, own, weights, strict=True):
        alone = images(function, y, s, weights=w)
        torch.testing.assert_close(one, alone, rtol=0, atol=2e-4 * float(alone.abs().max()))
    assert result[0].any() and not result[1].any() and result[2].any()
    # In another order.
    turned = images(function, stack.flip(0), own.flip(0), weights=weights.flip(0))
    error = (turned.flip(0) - result).flatten(1).norm(dim=1)
    assert (error <= 2e-4 * result.flatten(1).norm(dim=1)).all()


@pytest.mark.parametrize("function", IMAGES)
def test_a_frame_is_the_same_alone(function: Callable[..., Any]) -> None:
    kspace, maps, weights = scan()
    stack = torch.tensor([1e-3, 1.0]).view(2, 1, 1, 1) * kspace[0]
    result = images(function, stack, maps, weights=weights[0])
    for t in range(2):
        alone = images(function, stack[t : t + 1], maps, weights=weights[0, t : t + 1])[0]
        atol = 2e-4 * float(alone.abs().max())
        torch.testing.assert_close(result[t], alone, rtol=0, atol=atol)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_gradient_of_a_slice_is_the_same_alone(
    function: Callable[..., Any], scale: float
) -> None:
    kspace, maps, weights = scan()
    options: dict[str, Any] = {"max_num_iters": 100, "tol": 1e-6}

    def gradients(y: Tensor, s: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        inputs = y.clone().requires_grad_(), s.clone().requires_grad_()
        result = images(function, *inputs, weights=w, **options)
        return torch.autograd.grad(result.abs().square().sum(), inputs)

    stack = torch.tensor([scale, 1.0, 1.0]).view(-1, 1, 1, 1, 1) * kspace
    own = maps.expand(3, 2, -1, -1, -1)
    together = gradients(stack, own, weights)
    alone = gradients(stack[0], own[0], weights[0])
    for of_stack, of_one in zip(together, alone, strict=True):
        assert (of_stack[0] - of_one).norm() <= 2e-4 * of_one.norm()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_gradient_flows_from_one_slice_to_another(function: Callable[..., Any]) -> None:
    """Exactly, also far from the solution."""
    kspace, maps, weights = scan()
    inputs = kspace.requires_grad_(), maps.expand(3, 2, -1, -1, -1).clone().requires_grad_()
    result = images(function, *inputs, weights=weights, max_num_iters=3, tol=0.0)
    for gradient in torch.autograd.grad(result[1].abs().square().sum(), inputs):
        assert gradient[1].any() and not gradient[::2].any()


@pytest.mark.parametrize("dark", [1e-3, 0.0])
def test_a_bright_slice_does_not_stop_a_dark_one(dark: float) -> None:
    """With the default tolerances, which a bright slice reaches by itself."""
    kspace, maps, weights = scan()
    stack = torch.stack([kspace[0, 0], dark * kspace[1, 0]])
    for function in IMAGES:
        options: Any = {"wavelet": "haar"} if "wavelet" in function.__name__ else {}
        options["weights"] = weights[:2, 0]
        result = function(stack, ("S", "C", "Kx", "Ky"), maps, **options)[1]
        options["weights"] = weights[1, 0]
        alone = function(stack[1], ("C", "Kx", "Ky"), maps, **options)
        assert (result - alone).norm() <= 0.02 * alone.norm()


def test_maps_of_a_slice_are_made_from_that_slice() -> None:
    n = (32, 32)
    dims = ("S", "C", "Kx", "Ky")
    maps, head = tl.phantoms.CoilSeries.around(4).on_grid(n), tl.phantoms.shepp_logan(n)
    whole = tl.FFT(2, centered=True)(maps * head)
    wide, narrow = (tl.masks.poisson_disc(n, acceleration=2, calibration=size) for size in (20, 8))
    stack = torch.stack([wide * whole, 1e-3 * narrow * whole, 0 * whole])
    result = recon.sense(stack, dims)
    for number in range(2):
        alone = recon.sense(stack[number], dims[1:])
        torch.testing.assert_close(result[number], alone, rtol=1e-4, atol=1e-6)
    assert not result[2].any()
    # A slice of noise has no maps.
    stack[2] = torch.randn(4, *n, dtype=torch.complex64)
    with pytest.warns(
        UserWarning, match=r"sense: 1 of 3 slices have no coil maps, .* \(2,\); give"
    ):
        again = recon.sense(stack, dims)
    assert torch.equal(again[:2], result[:2]) and not again[2].any()
    with pytest.raises(ValueError, match="sense: coil maps cannot be made; give maps: espirit: "):
        recon.sense(stack[2:], dims)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_slice_of_maps_that_are_zero_is_zero(function: Callable[..., Any]) -> None:
    kspace, maps, weights = scan()
    own = maps * torch.tensor([1.0, 0.0, 1.0]).view(-1, 1, 1, 1, 1).expand(3, 2, 1, 1, 1)
    result = images(function, kspace, own, weights=weights)
    assert result.isfinite().all() and not result[1].any()
    assert math.isfinite(float(result.abs().max())) and result[0].any()
