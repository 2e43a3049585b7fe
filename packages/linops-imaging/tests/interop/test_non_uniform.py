"""Stand-ins that sum, for libraries that may not be installed; ``witnesses`` has the real ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import NamedLinop
from linops_core.testing import dottest
from linops_imaging import NUFFT, interop
from linops_imaging.interop._in_radians import transform


def summed(
    x: Tensor, omega: Tensor, middle: list[float], sign: int = -1, scale: float = 1.0
) -> Tensor:
    """Return the sum over the last axes of x for each of omega (K, D)."""
    axes = [
        torch.arange(n, dtype=torch.float64) - m
        for n, m in zip(x.shape[-len(middle) :], middle, strict=True)
    ]
    at = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).flatten(0, -2)
    matrix = torch.exp(sign * 1j * (omega.double() @ at.T))
    return scale * (x.flatten(-len(middle)).to(matrix.dtype) @ matrix.mT)


class Operator(SimpleNamespace):
    """An operator of mri-nufft, for locations that are taken for radians."""

    def op(self, x: Any) -> Any:
        image = torch.from_numpy(x)
        if self.smaps is not None:
            image = image.unsqueeze(-3) * torch.as_tensor(self.smaps)
        middle = [n // 2 for n in self.shape]
        return summed(image, self.samples, middle, scale=self.scale).numpy()


class KbNufft(SimpleNamespace):
    def __call__(self, x: Tensor, omega: Tensor, norm: str | None = None) -> Tensor:
        scale = 1 / math.sqrt(math.prod(self.grid_size)) if norm else 1.0
        return summed(x, omega.mT, list(self.n_shift), scale=scale)


class KbNufftAdjoint(SimpleNamespace): ...


class PyNUFFT(SimpleNamespace):
    def forward(self, x: Any) -> Any:
        middle = [n / 2 for n in self.st["Nd"]]
        return summed(torch.from_numpy(x), torch.as_tensor(self.st["om"]), middle).numpy()


@pytest.fixture(autouse=True, scope="module")
def stand_ins() -> Iterator[None]:
    names = "mrinufft", "mrinufft.operators", "mrinufft.operators.base", "torchkbnufft", "pynufft"
    modules: dict[str, Any] = {name: ModuleType(name) for name in names}
    modules["mrinufft.operators.base"].FourierOperatorBase = Operator
    modules["torchkbnufft"].KbNufft = KbNufft
    modules["torchkbnufft"].KbNufftAdjoint = KbNufftAdjoint
    modules["pynufft"].NUFFT = PyNUFFT
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        yield


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))


def points(n_dims: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return (torch.rand(7, n_dims, dtype=torch.float64, generator=generator) - 0.5) * 12  # turns


@given(
    st.lists(st.integers(2, 5), min_size=1, max_size=2),
    st.sampled_from([-1, 1]),
    st.sampled_from([0, 0.5, 1.5]),
    st.booleans(),
)
def test_any_sign_middle_and_order(
    sizes: list[int], sign: int, off: float, fft_order: bool
) -> None:
    omega, scale = points(len(sizes)), 0.3
    middle = [size // 2 + off for size in sizes]
    given: Any = {"tol": 1e-9}
    A = transform(omega, sizes, given, sign=sign, scale=scale, middle=middle, fft_order=fft_order)
    x = random(2, *sizes)
    axes = tuple(range(1, x.ndim))
    expected = summed(torch.fft.fftshift(x, axes) if fft_order else x, omega, middle, sign, scale)
    torch.testing.assert_close(A(x), expected, rtol=0, atol=1e-7)
    dottest(A, like=x)
    assert A(x.to(torch.complex64)).dtype == torch.complex64


@pytest.mark.parametrize("kind", [1, 2])
def test_a_plan_of_finufft_in_single_precision(kind: int) -> None:
    finufft = pytest.importorskip("finufft")
    plan = finufft.Plan(kind, (4, 5), isign=1, dtype="complex64", modeord=1)
    axes = (points(2) / 2).float().T.contiguous().numpy()
    plan.setpts(*axes)
    A = interop.from_finufft(plan, method="table")
    x = random(*([4, 5] if kind == 2 else [7])).to(torch.complex64)
    result = torch.from_numpy(plan.execute(x.numpy()))
    torch.testing.assert_close(A(x), result, rtol=0, atol=1e-4)
    assert any(isinstance(part, NUFFT) and part.method == "table" for part in A.modules())


def operator(**changed: Any) -> Any:
    scale = 1 / math.sqrt(4 * 4 * 5)
    given = {"shape": (4, 5), "samples": points(2), "smaps": None, "scale": scale}
    return Operator(**{**given, "n_coils": 1, "n_batchs": 1, "squeeze_dims": True, **changed})


@pytest.mark.parametrize("maps", [None, random(3, 4, 5).numpy()])
def test_an_operator_of_mri_nufft(maps: Any) -> None:
    source = operator(smaps=maps, n_coils=1 if maps is None else 3)
    A = interop.from_mrinufft(source, "Coil", output_shape=("S",))
    assert A.oshape[-1:] == ("S",) and ("Coil" in A.oshape) == (maps is not None)
    x = random(4, 5)
    torch.testing.assert_close(A(x), torch.from_numpy(source.op(x.numpy())), rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch", [("B",), ("B", "Coil"), ("B", "..."), ()])
def test_the_dimensions_of_a_batch_may_be_named(batch: tuple[str, ...]) -> None:
    def of_kbnufft(omega: Tensor, **options: Any) -> NamedLinop:
        sizes, table = torch.tensor([4, 5]), torch.ones(1, dtype=torch.complex128)
        module: Any = KbNufft(im_size=sizes, grid_size=2 * sizes, n_shift=[2, 2], table_0=table)
        return interop.from_torchkbnufft(module, omega, batch_shape=batch, **options)

    omega, image = points(2).T, ("Nx", "Ny")
    for A in (
        interop.from_mrinufft(operator(), batch_shape=batch),
        interop.from_pytorch_finufft(finufft_type2, omega, (4, 5), batch_shape=batch),
        of_kbnufft(omega),
    ):
        assert A.ishape == (*batch, *image) and A.oshape == (*batch, "K")
    if batch:
        A = of_kbnufft(omega.expand(3, 2, 7), output_shape=("B", "K"))
        assert A.oshape == (*batch, "K")
    if batch[1:]:
        source = operator(smaps=random(3, 4, 5).numpy(), n_coils=3)
        A = interop.from_mrinufft(source, "Coil", batch_shape=batch)
        others = tuple(dim for dim in batch if dim != "Coil")
        assert A.ishape == (*others, *image) and A.oshape == (*others, "Coil", "K")


def test_another_scale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"from_mrinufft: the source must .* differ by 1.2 of"):
        interop.from_mrinufft(operator(scale=0.05))


def test_a_source_that_gives_zeros_is_refused() -> None:
    with pytest.raises(ValueError, match=r"from_mrinufft: the source must compute what the"):
        interop.from_mrinufft(operator(scale=0.0))


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_a_module_of_torchkbnufft(norm: Any) -> None:
    sizes, table = torch.tensor([4, 5]), torch.ones(1, dtype=torch.complex128)
    module: Any = KbNufft(im_size=sizes, grid_size=2 * sizes, n_shift=[1, 2], table_0=table)
    omega = points(2).T
    A = interop.from_torchkbnufft(module, omega, norm=norm)
    x = random(3, 4, 5)
    torch.testing.assert_close(A(x), module(x, omega, norm), rtol=0, atol=1e-4)
    maps = random(1, 2, 4, 5)
    S = interop.from_torchkbnufft(module, omega, maps, norm, "Coil")
    torch.testing.assert_close(S(x), module(x[:, None] * maps[0], omega, norm), rtol=0, atol=1e-4)
    with pytest.raises(ValueError, match=r"smaps must be the maps of one image, .* \(2, 2, 4, 5\)"):
        interop.from_torchkbnufft(module, omega, maps.expand(2, 2, 4, 5), norm)
    with pytest.raises(ValueError, match=r"from_torchkbnufft: norm must be None or \"ortho\", got"):
        interop.from_torchkbnufft(module, omega, norm="forward")


def finufft_type2(omega: Tensor, x: Tensor, isign: int, modeord: int) -> Tensor:
    axes = tuple(range(-len(omega), 0))
    middle = [float(n // 2) for n in x.shape[-len(omega) :]]
    return summed(torch.fft.fftshift(x, axes) if modeord else x, omega.mT, middle, isign)


def finufft_type1(
    omega: Tensor, c: Tensor, sizes: tuple[int, ...], isign: int, modeord: int
) -> Tensor:
    axes = tuple(range(-len(sizes), 0))
    of_axes = [torch.arange(n, dtype=torch.float64) - n // 2 for n in sizes]
    at = torch.stack(torch.meshgrid(*of_axes, indexing="ij"), -1)
    image = torch.einsum("k,...k->...", c, torch.exp(isign * 1j * (at @ omega)))
    return torch.fft.ifftshift(image, axes) if modeord else image


@pytest.mark.parametrize("isign", [-1, 1])
@pytest.mark.parametrize("modeord", [0, 1])
def test_a_function_of_pytorch_finufft(isign: int, modeord: int) -> None:
    omega = points(2).T.double()
    given: dict[str, Any] = {"isign": isign, "modeord": modeord}
    two = interop.from_pytorch_finufft(finufft_type2, omega, (4, 5), **given)
    x = random(3, 4, 5)
    torch.testing.assert_close(two(x), finufft_type2(omega, x, **given), rtol=0, atol=1e-4)
    one = interop.from_pytorch_finufft(finufft_type1, omega, (4, 5), **given)
    c = two(x)[0]
    torch.testing.assert_close(one(c), finufft_type1(omega, c, (4, 5), **given), rtol=0, atol=1e-3)
    with pytest.raises(TypeError, match=r"from_pytorch_finufft: function must be one of .*, got"):
        interop.from_pytorch_finufft(summed, omega, (4, 5))


def test_a_plan_of_pynufft() -> None:
    source: Any = PyNUFFT(st={"Nd": (4, 5), "om": points(2).numpy()})
    A = interop.from_pynufft(source)
    x = random(4, 5)
    torch.testing.assert_close(A(x), torch.from_numpy(source.forward(x.numpy())), rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="from_pynufft: nufft must have a plan, got none"):
        interop.from_pynufft(PyNUFFT())


def test_bad_sources_are_refused() -> None:
    wrong: Any = np.zeros(3)
    for function, what in (
        (interop.from_finufft, "plan must be a finufft.Plan"),
        (interop.from_mrinufft, "operator must be a FourierOperatorBase"),
        (interop.from_pynufft, r"nufft must be a pynufft\.NUFFT"),
        (lambda source: interop.from_torchkbnufft(source, points(2)), "module must be a KbNufft"),
    ):
        with pytest.raises(TypeError, match=rf"from_\w+: {what}.*, got .*ndarray"):
            function(wrong)  # type: ignore[no-untyped-call]
    finufft = pytest.importorskip("finufft")
    for plan in (finufft.Plan(3, 2), finufft.Plan(2, (4, 5))):
        with pytest.raises(
            ValueError, match=r"from_finufft: plan must be of type 1 or 2, with its"
        ):
            interop.from_finufft(plan)
