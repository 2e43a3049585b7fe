"""Laws of all public proximal maps, also of maps to come: memory layouts, and the minimum."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import linops_solvers as alg
from linops_core import DCT
from linops_core.siblings import real_parts

CENTER = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
# Arguments for maps that need some, or act in another way with them.
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    "box": [(-0.5, 0.25), (-CENTER.abs().mT.contiguous().mT, None)],
    "conjugate": [(alg.soft_threshold(),), (alg.l1_ball(1.0),)],
    "group_soft_threshold": [(0.5,), (0.5, 0), (CENTER.abs()[:, :1], 1)],
    "in_basis": [(DCT(("Nx", "Ny")), alg.soft_threshold())],
    "l1_ball": [(), (0.5, 0), (0.5, -1)],
    "l2_ball": [(1.0,), (0.5, CENTER.flip(0))],
    "l2_squared": [(), (CENTER.abs(), CENTER)],
    "poisson_likelihood": [(3.0,), (5 * CENTER.abs(), CENTER[:, :1].abs())],
    "separable": [(alg.soft_threshold(),)],
    "simplex": [(), (2.0, 0)],
    "soft_threshold": [(), (CENTER.abs(),)],
}
MAPS = [
    pytest.param(getattr(alg, name), arguments, id=f"{name}{len(arguments)}")
    for name in dir(alg)
    if not name.startswith("from_")  # maps of others, in tests of their own
    if getattr(getattr(alg, name), "__annotations__", {}).get("return") == "ProximalMap"
    for arguments in ARGUMENTS.get(name, [()])
]
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda z: z.mT.contiguous().mT,
    "strided": lambda z: torch.stack([z, z + 1], -1)[..., 0],
    "offset": lambda z: torch.cat([z[:1], z])[1:],
    "expanded": lambda z: z[:1].expand(4, 3),
    "conjugate": lambda z: z.conj().resolve_conj().conj() if z.is_complex() else z,
    "negative": lambda z: torch.complex(z, -z).conj().imag if not z.is_complex() else z,
    "part": lambda z: torch.complex(z, z).real if not z.is_complex() else z,
}
DTYPES = [torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128]


ONLY_REAL = (alg.box, alg.poisson_likelihood, alg.simplex)
PENALTIES = (
    alg.soft_threshold,
    alg.group_soft_threshold,
    alg.l0,
    alg.huber,
    alg.l2_squared,
    alg.nuclear_norm,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("make", "arguments"), MAPS)
def test_the_layout_of_memory_does_not_matter(
    make: Any, arguments: tuple[Any, ...], dtype: torch.dtype
) -> None:
    if dtype.is_complex and make in ONLY_REAL:
        pytest.skip("for real x only")
    if dtype is torch.float16 and make is alg.in_basis:
        pytest.skip("torch has no transform of these")
    proximal = make(*arguments)
    wide = torch.randn(4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    z = (wide if dtype.is_complex else wide.real).to(dtype, memory_format=torch.contiguous_format)
    for name, layout in LAYOUTS.items():
        if dtype is torch.float16 and name in ("negative", "part"):
            continue  # torch warns of complex numbers in half precision
        given = layout(z)
        expected = proximal(given.clone(memory_format=torch.contiguous_format).resolve_neg(), 0.7)
        before = given.clone()
        result = proximal(given, 0.7)
        assert torch.equal(given, before), name
        assert result.dtype == dtype and result.shape == z.shape, name
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(("make", "arguments"), MAPS)
@given(seed=st.integers(0, 2**16), step=st.floats(0.1, 3.0))
def test_convex_maps_are_firmly_nonexpansive(
    make: Any, arguments: tuple[Any, ...], is_complex: bool, seed: int, step: float
) -> None:
    """The law of all proximal maps of convex functions (Parikh and Boyd 2014, section 2.3)."""
    if make is alg.l0 or (is_complex and make in ONLY_REAL):
        return
    proximal, dtype = make(*arguments), torch.complex128 if is_complex else torch.float64
    z, w = 2 * torch.randn(2, 4, 3, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    apart, moved = z - w, proximal(z, step) - proximal(w, step)
    product = (apart.conj() * moved).sum().real
    assert moved.abs().square().sum() <= product + 1e-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize(("make", "arguments"), MAPS)
def test_an_infinite_step_gives_the_limit(
    make: Any, arguments: tuple[Any, ...], dtype: torch.dtype
) -> None:
    """The nearest minimiser: z itself where nothing is penalised."""
    if make is alg.conjugate or (dtype.is_complex and make in ONLY_REAL):
        return
    wide = torch.randn(4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    z = (wide if dtype.is_complex else wide.real).to(dtype)
    z[0, 0] = 0
    proximal = make(*arguments)
    result = proximal(z, math.inf)
    assert result.dtype == dtype
    torch.testing.assert_close(result, proximal(z, 1e12), rtol=1e-5, atol=1e-5)
    if dtype is torch.float32:  # which cannot hold this step
        assert torch.equal(result, proximal(z, 1e200))


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(("make", "arguments"), MAPS)
def test_gradients_are_finite_at_any_scale(
    make: Any, arguments: tuple[Any, ...], is_complex: bool
) -> None:
    """Also those of the branch that is not taken, of zeros, and below the range of the dtype."""
    if is_complex and make in ONLY_REAL:
        return
    proximal, dtype = make(*arguments), torch.complex64 if is_complex else torch.float32
    wide = torch.randn(4, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    for scale in (0.0, 1e-40, 1e-36, 1e-25, 1e-19, 1e-8, 1.0, 1e8, 1e18, 1e35):
        z = (scale * wide).requires_grad_()
        (gradient,) = torch.autograd.grad(real_parts(proximal(z, 0.7)).sum(), z)
        assert gradient.isfinite().all(), scale


@pytest.mark.parametrize(("make", "arguments"), MAPS)
def test_a_step_that_is_learned_has_its_gradient(make: Any, arguments: tuple[Any, ...]) -> None:
    proximal, step = make(*arguments), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    z = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(proximal(z, step).detach(), proximal(z, 0.7))
    if proximal(z, step).requires_grad:  # not of projections, and of l0
        assert torch.autograd.gradcheck(lambda step: proximal(z, step), step)


@pytest.mark.parametrize("make", PENALTIES)
def test_an_infinite_step_leaves_exactly_what_has_no_weight(make: Any) -> None:
    z = torch.randn(4, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    assert not make(1e-30)(z, math.inf).any()
    torch.testing.assert_close(make(0.0)(z, math.inf), z, rtol=1e-14, atol=1e-14)
    if make is not alg.nuclear_norm:  # of which the weight is a number
        weights = torch.tensor([0.0, 1.0, 1e-30])
        assert torch.equal(make(weights)(z, math.inf), z * (weights == 0))


def test_an_infinite_step_reaches_the_centre() -> None:
    z = torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights, center = torch.tensor([0.0, 1.0, 1e-30]), torch.tensor([5.0, 6.0, 7.0])
    result = alg.l2_squared(weights, center)(z, math.inf)
    assert result.tolist() == [float(z[0]), 6.0, 7.0]
    assert alg.l2_squared(1.0, 2.0)(z, math.inf).tolist() == [2.0] * 3


@pytest.mark.parametrize(("make", "arguments"), MAPS)
def test_the_default_device_does_not_matter(make: Any, arguments: tuple[Any, ...]) -> None:
    z = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = make(*arguments)(z, 0.7)
    with torch.device("meta"):
        result = make(*arguments)(z, 0.7)
    assert torch.equal(result, expected)
