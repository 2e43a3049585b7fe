"""Non-uniform Fourier transforms that are made from those of other libraries."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_core import Dense, NamedLinop
from linops_core.testing import dottest
from linops_imaging import interop

SIZES = [(9,), (6, 9), (6, 5, 4)]


def points(n_dims: int, n: int = 37) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return (torch.rand(n, n_dims, dtype=torch.float64, generator=generator) - 0.5) * 2 * math.pi


def random(*shape: int, dtype: torch.dtype = torch.complex128) -> Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(2))


def check(A: NamedLinop, x: Tensor, expected: Any, tol: float) -> None:
    """The numbers of the source for a batch, an exact adjoint, gradients and the dtype of data."""
    y = A(x)
    assert (y - torch.as_tensor(expected)).norm() < tol * y.norm()
    dottest(A, like=x)
    z = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(A(z).abs().square().sum(), z)
    torch.testing.assert_close(gradient, 2 * A.H(A(x)))
    single = A(x.to(torch.complex64))
    is_single = not any(weight.dtype == torch.complex128 for weight in weights_of(A))
    assert single.dtype == (torch.complex64 if is_single else torch.complex128)


def weights_of(A: NamedLinop) -> list[Tensor]:
    """Return the coil maps, with which data are multiplied as in torch."""
    return [part.weight for part in A.modules() if type(part) is Dense]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("order", [0, 1])
def test_finufft(sizes: tuple[int, ...], kind: int, sign: int, order: int) -> None:
    finufft = pytest.importorskip("finufft")
    plan = finufft.Plan(kind, sizes, n_trans=2, eps=1e-9, isign=sign, modeord=order)
    axes = [np.ascontiguousarray(at) for at in points(len(sizes)).T.numpy()]
    plan.setpts(*axes)
    A = interop.from_finufft(plan, tol=1e-9)
    x = random(2, *(sizes if kind == 2 else [37]))
    check(A, x, plan.execute(x.numpy()), 1e-7)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("given", [{}, {"isign": 1}, {"modeord": 0}])
def test_pytorch_finufft(sizes: tuple[int, ...], kind: int, given: dict[str, Any]) -> None:
    library = pytest.importorskip("pytorch_finufft.functional")
    function, omega = getattr(library, f"finufft_type{kind}"), points(len(sizes)).T.contiguous()
    A = interop.from_pytorch_finufft(function, omega, sizes, tol=1e-9, **given)
    x = random(2, *(sizes if kind == 2 else [37]))
    expected = function(omega, x, *([] if kind == 2 else [sizes]), eps=1e-9, **given)
    check(A, x, expected, 1e-7)


@pytest.mark.parametrize("sizes", SIZES[1:])
@pytest.mark.parametrize("unit", [1.0, 1 / (2 * math.pi)])
@pytest.mark.parametrize("n_maps", [0, 3])
@pytest.mark.usefixtures("torchvision_operators")
def test_mri_nufft(sizes: tuple[int, ...], unit: float, n_maps: int) -> None:
    pytest.importorskip("mrinufft")
    from mrinufft.operators.interfaces.finufft import MRIfinufft

    maps = random(n_maps, *sizes).numpy() if n_maps else None
    given = {"smaps": maps, "n_coils": max(n_maps, 1), "density": points(1)[:, 0].abs().numpy()}
    with pytest.warns(UserWarning, match="rescaled") if unit < 1 else pytest.MonkeyPatch.context():
        op = MRIfinufft(points(len(sizes)).numpy() * unit, sizes, **given, eps=1e-9)
    A = interop.from_mrinufft(op, tol=1e-9)
    x = random(*sizes)
    check(A, x, op.op(x.numpy()), 1e-7)
    y = random(*A(x).shape)
    back = A.H(torch.from_numpy(given["density"]) * y)
    np.testing.assert_allclose(back.numpy(), op.adj_op(y.numpy()), atol=1e-7)
    coils = MRIfinufft(points(len(sizes)).numpy(), sizes, n_coils=2, n_batchs=3, eps=1e-9)
    many = random(3, 2, *sizes)
    check(interop.from_mrinufft(coils, tol=1e-9), many, coils.op(many.numpy()), 1e-7)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("shift", [None, 1])
def test_torchkbnufft(sizes: tuple[int, ...], norm: str | None, shift: int | None) -> None:
    kb = pytest.importorskip("torchkbnufft")
    n_shift = None if shift is None else [shift] * len(sizes)
    given = {"n_shift": n_shift, "dtype": torch.complex128}
    forward, adjoint = kb.KbNufft(sizes, **given), kb.KbNufftAdjoint(sizes, **given)
    omega = points(len(sizes)).T
    maps = random(3, *sizes)
    A = interop.from_torchkbnufft(forward, omega, maps, norm)
    x = random(2, *sizes)
    there = forward(x.unsqueeze(1), omega, smaps=maps.unsqueeze(0), norm=norm)
    check(A, x, there, 3e-3)
    y = random(2, 3, 37)
    B = interop.from_torchkbnufft(adjoint, omega, maps, norm)
    check(B, y, adjoint(y, omega, smaps=maps.unsqueeze(0), norm=norm)[:, 0], 3e-3)
    torch.testing.assert_close(B(y), A.H(y))


def test_torchkbnufft_with_frames_and_gradients_to_locations() -> None:
    kb = pytest.importorskip("torchkbnufft")
    forward = kb.KbNufft((6, 9), dtype=torch.complex128)
    omega = torch.stack([points(2).T, 0.5 * points(2).T]).requires_grad_()
    names: Any = {"output_shape": ("B", "K"), "batch_shape": ("B", "C")}
    A = interop.from_torchkbnufft(forward, omega, **names)
    x = random(2, 4, 6, 9)
    ours = A(x)
    theirs = forward(x, omega)
    assert (ours - theirs).norm() < 2e-3 * ours.norm()
    one = interop.from_torchkbnufft(forward, omega, output_shape=("B", "K"), batch_shape=("B",))
    torch.testing.assert_close(one(x[:, 0]), ours[:, 0])
    # torchkbnufft has no gradients to the locations.
    shift = 1e-5 * torch.ones_like(omega)
    (gradient,) = torch.autograd.grad(ours.abs().square().sum(), omega)
    losses = [
        interop.from_torchkbnufft(forward, omega.detach() + step, **names)(x).abs().square().sum()
        for step in (shift, -shift)
    ]
    torch.testing.assert_close(
        (gradient * shift).sum(), (losses[0] - losses[1]) / 2, rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("sizes", [(17,), (16, 17), (16, 17, 18)])  # it is worse for small ones
def test_pynufft(sizes: tuple[int, ...]) -> None:
    pynufft = pytest.importorskip("pynufft")
    nufft = pynufft.NUFFT()
    grid = tuple(2 * size for size in sizes)
    nufft.plan(points(len(sizes)).numpy(), sizes, grid, (6,) * len(sizes))
    A = interop.from_pynufft(nufft)
    x = random(*sizes)
    check(A, x, nufft.forward(x.numpy()), 3e-3)
    y = random(37)
    back = nufft.adjoint(y.numpy().astype(np.complex64)) * math.prod(grid)
    assert np.linalg.norm(back - A.H(y).numpy()) < 3e-3 * np.linalg.norm(back)
