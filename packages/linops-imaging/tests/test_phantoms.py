import math
from collections.abc import Callable

import pytest
import torch

from linops_core import FFT
from linops_imaging import ParallelBeam, phantoms
from linops_imaging._ellipses import HEAD, unit_radius
from linops_imaging.phantoms import (
    CoilSeries,
    shepp_logan,
    shepp_logan_kspace,
    shepp_logan_sinogram,
)


@pytest.mark.parametrize("ndim", [2, 3])
def test_the_transform_is_the_integral_of_the_image(ndim: int) -> None:
    """A sum over points that are so dense that edges hardly matter."""
    n, size = (600, 64) if ndim == 2 else (96, 24)
    image = shepp_logan([n] * ndim, torch.float64)
    locs = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.5, -2.0], [-3.25, 2.0, 0.5], [4.0, -1.0, 2.0]])
    locs = locs[:, :ndim].double()
    axes = [(torch.arange(n, dtype=torch.float64) - n // 2) / n] * ndim
    coils = CoilSeries.around(3, ndim)
    maps = coils.on_grid([n] * ndim, torch.complex128)
    for weighted, given in ((image[None].to(maps.dtype), None), (image * maps, coils)):
        result = shepp_logan_kspace(locs, [size] * ndim, given)
        for number, loc in enumerate(locs):
            part = weighted
            for axis, at in zip(reversed(axes), reversed(loc.tolist()), strict=True):
                part = part @ torch.exp(-2j * math.pi * at * axis)
            expected = part / n**ndim * math.sqrt(size**ndim)
            limit = 1e-3 * math.sqrt(size**ndim)
            assert (result.view(len(weighted), -1)[:, number] - expected).abs().max() < limit


@pytest.mark.parametrize("sizes", [(96, 96), (97, 64)])
def test_line_integrals_are_those_of_the_image(sizes: tuple[int, int]) -> None:
    """Of pixels that are so small that edges hardly matter, an odd number of them in each."""
    fine, spacing, n_detectors = 9, 0.8, 171
    angles = torch.tensor([0.0, 0.4, math.pi / 2, 2.0, -3.0], dtype=torch.float64)
    result = shepp_logan_sinogram(angles, n_detectors, sizes, spacing)
    axes = [(torch.arange(n * fine) // fine - n // 2 + 0.0) for n in sizes]
    within = (torch.arange(fine) - fine // 2) / fine
    axes = [(at + within.repeat(n)) * 2 / n for at, n in zip(axes, sizes, strict=True)]
    at = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).double()
    parts = [e.intensity * (unit_radius(e, at) <= 1).double() for e in HEAD]
    image = torch.stack(parts).sum(0)
    A = ParallelBeam(angles, n_detectors, image.shape, spacing * fine)
    assert (A(image) / fine - result).norm() < 1e-2 * result.norm()


def test_the_transform_of_a_projection_is_a_line_of_k_space() -> None:
    angles, n, spacing = torch.tensor([0.3, 1.9], dtype=torch.float64), 64, 0.02
    rays = shepp_logan_sinogram(angles, 6001, n, spacing)
    s = (torch.arange(6001) - 3000) * spacing - (n // 2 - (n - 1) / 2) * (
        angles.cos() + angles.sin()
    ).unsqueeze(-1)
    for where in (0.0, 1.5, -4.0):
        result = (rays * torch.exp(-2j * math.pi * where / n * s)).sum(-1) * spacing / n
        locs = where * torch.stack([angles.cos(), angles.sin()], -1)
        torch.testing.assert_close(result, shepp_logan_kspace(locs, [n, n]), atol=1e-4, rtol=0)


def test_it_is_in_the_scale_of_an_orthonormal_transform() -> None:
    sizes = [96, 64]
    at = torch.stack(
        torch.meshgrid(torch.arange(-4, 5), torch.arange(-4, 5), indexing="ij"), -1
    ).double()
    pixels = FFT(2, centered=True)(shepp_logan(sizes, torch.float64))[44:53, 28:37]
    result = shepp_logan_kspace(at, sizes)
    assert result.dtype == torch.complex128
    assert (result - pixels).norm() < 0.06 * result.norm()


def test_the_head_has_the_grey_values_of_its_table() -> None:
    head = shepp_logan([128, 128], torch.float64)
    assert set(head.unique().mul(10).round().int().tolist()) == {0, 1, 2, 3, 4, 10}
    assert head[64, 64] == head[66, 64] and abs(head[64, 64] - 0.2) < 1e-12
    assert head[64, 64 + int(0.9 * 64)] == 1.0 and head[0, 0] == 0
    volume = shepp_logan([32, 32, 32], torch.float64)
    torch.testing.assert_close(volume[:, :, 16][16, 16], torch.tensor(0.2).double())


def test_coils_are_smooth_and_see_everything() -> None:
    for ndim, n_coils in ((2, 8), (3, 12)):
        maps = CoilSeries.around(n_coils, ndim).on_grid([24] * ndim)
        assert maps.shape == (n_coils, *[24] * ndim) and maps.dtype == torch.complex64
        together = maps.abs().square().sum(0).sqrt()
        assert together.min() > 0.3
        assert maps.abs().max() < 1.3
        for axis in range(1, ndim + 1):
            assert maps.diff(dim=axis).abs().max() < 0.3
        angle = maps.flatten(1)
        overlap = (angle.conj() @ angle.T).abs()
        overlap /= overlap.diagonal().sqrt().outer(overlap.diagonal().sqrt())
        assert overlap.fill_diagonal_(0).max() < 0.99


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: shepp_logan([4, 4], torch.int32), TypeError, "of real or complex numbers, got"),
        (lambda: CoilSeries([1]), TypeError, "coefficients must be a torch.Tensor, got"),  # type: ignore[arg-type]
        (lambda: CoilSeries.around(2, 2, 0), ValueError, "n_terms must be at least 1, got 0"),
        (
            lambda: CoilSeries.around(2).on_grid([4, 4], torch.float32),
            TypeError,
            "dtype must be a torch.dtype of complex numbers, got torch.float32",
        ),
        (lambda: shepp_logan([4]), ValueError, "must be 2 or 3 positive integers"),
        (lambda: shepp_logan_kspace([0, 0], [4, 4]), TypeError, "tensor of real numbers, got"),  # type: ignore[arg-type]
        (lambda: shepp_logan_kspace(torch.zeros(3), [4, 4]), ValueError, "must have size 2 for"),
        (
            lambda: shepp_logan_kspace(torch.zeros(2), [4, 4], CoilSeries.around(2, 3)),
            ValueError,
            "maps must be of 2 dimensions for a grid of .*, got 3",
        ),
        (lambda: CoilSeries(torch.zeros(2, 4, 3)), ValueError, "with an odd P along two or three"),
        (lambda: CoilSeries.around(0), ValueError, "n_coils must be at least 1"),
        (lambda: CoilSeries.around(1, 1), ValueError, "ndim must be 2 or 3, got 1"),
        (lambda: CoilSeries.around(2).on_grid([4]), ValueError, "must be 2 positive integers"),
    ],
)
def test_bad_arguments_are_refused(
    call: Callable[[], object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        call()


def test_a_volume_is_computed_some_planes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = phantoms.shepp_logan([7, 6, 5])
    monkeypatch.setattr(phantoms, "AT_ONCE", 70)
    assert torch.equal(phantoms.shepp_logan([7, 6, 5]), expected)


def test_gradients_reach_the_coefficients_of_coils() -> None:
    coefficients = torch.randn(2, 3, 1, dtype=torch.complex128, requires_grad=True)
    torch.autograd.gradcheck(
        lambda a: phantoms.CoilSeries(a).on_grid([3, 2], torch.complex128), coefficients
    )


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("ndim", [2, 3])
def test_closed_forms_are_computed_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
    allocated: Callable[[Callable[[], object]], int],
    ndim: int,
) -> None:
    locs, maps = torch.linspace(-4, 4, 400 * ndim).view(40, 10, ndim), CoilSeries.around(2, ndim)

    def kspace() -> torch.Tensor:
        return shepp_logan_kspace(locs, [8] * ndim)

    def sinogram() -> torch.Tensor:
        return shepp_logan_sinogram(locs[:, 0, 0], 50, 8)

    for make in (kspace, sinogram):
        monkeypatch.setattr(phantoms, "AT_ONCE", 2**30)
        expected, of_coils = make(), shepp_logan_kspace(locs[:2], [8] * ndim, maps)
        monkeypatch.setattr(phantoms, "AT_ONCE", 2**7)
        torch.testing.assert_close(shepp_logan_kspace(locs[:2], [8] * ndim, maps), of_coils)
        torch.testing.assert_close(make(), expected)
        assert allocated(make) < 6 * expected.nbytes  # it was 20 and 12
    for shape in ((0, ndim), (ndim,)):
        assert shepp_logan_kspace(torch.zeros(shape), [8] * ndim).shape == shape[:-1]
        assert shepp_logan_kspace(torch.zeros(shape), [8] * ndim, maps).shape == (2, *shape[:-1])
