import math
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Dense
from linops_imaging import phantoms
from linops_imaging._coils import _coil_axes
from linops_imaging.coil_maps import (
    compress_coils,
    espirit,
    noise_covariance,
    prewhiten,
    walsh,
)

XY, XYZ = ("Kx", "Ky"), ("Kx", "Ky", "Kz")


def randn(*sizes: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*sizes, dtype=torch.complex128, generator=generator)


def scan(n_coils: int, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the k-space of the head, its unit maps, and where it is."""
    maps = phantoms.CoilSeries.around(n_coils, ndim=len(sizes)).on_grid([*sizes])
    maps = maps.to(torch.complex128)
    head = phantoms.shepp_logan([*sizes], torch.float64)
    kspace = FFT(len(sizes), centered=True)(maps * head)
    return kspace, maps / maps.norm(dim=0), head > 0.15


def disagreement(maps: Tensor, true: Tensor) -> Tensor:
    """Return the sine of the angle between maps of norm 1 at each pixel: 0 up to a phase."""
    away = maps - true * (true.conj() * maps).sum(0)
    length: Tensor = away.norm(dim=0)
    return length


def eigenvalue_problem(
    kspace: Tensor, region: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[Tensor, float]:
    """Return the matrix of each pixel (*N, C, C), by the definition, for half of the vectors.

    The threshold that leaves these comes with it.
    """
    n_coils, *sizes = kspace.shape
    first = [n // 2 - r // 2 for n, r in zip(sizes, region, strict=True)]
    rows = []
    starts = [range(f, f + r - k + 1) for f, r, k in zip(first, region, kernel, strict=True)]
    for corner in product(*starts):
        block = kspace
        for axis, (start, own) in enumerate(zip(corner, kernel, strict=True), 1):
            block = block.narrow(axis, start, own)
        rows.append(block.flatten())
    _, singular, basis = torch.linalg.svd(torch.stack(rows), full_matrices=False)
    half = len(singular) // 2
    threshold = float((singular[half - 1 : half + 1] / singular[0]).square().mean())
    kept = basis[:half]
    axes = [*range(2, 2 + len(sizes))]
    kernels = kept.view(-1, n_coils, *kernel)
    images = torch.fft.fftshift(torch.fft.ifftn(kernels, sizes, axes, "forward"), axes)
    matrices = torch.einsum("nc...,nd...->...cd", images, images.conj()) / math.prod(kernel)
    return matrices, threshold


@given(
    st.integers(2, 3),
    st.lists(st.tuples(st.integers(4, 7), st.integers(1, 3)), min_size=2, max_size=3),
    st.integers(0, 99),
)
def test_espirit_is_the_eigenvalue_problem(
    n_coils: int, axes: list[tuple[int, int]], seed: int
) -> None:
    sizes = tuple(size for size, _ in axes)
    kernel = tuple(own for _, own in axes)
    region = tuple(max(own + 1, size - 1) for size, own in axes)
    kspace = randn(n_coils, *sizes, seed=seed)
    dims = XYZ[: len(axes)]
    matrices, threshold = eigenvalue_problem(kspace, region, kernel)
    result, values = espirit(
        kspace,
        "C",
        dims,
        n_calibration=region,
        kernel_size=kernel,
        threshold=threshold,
        crop=0,
        n_maps=n_coils,
        return_eigenvalues=True,
    )
    # All eigenvectors and eigenvalues together are the matrix.
    vectors = result.movedim((0, 1), (-1, -2))
    again = (vectors * values.movedim(0, -1).unsqueeze(-2)) @ vectors.mH
    torch.testing.assert_close(again, matrices, atol=1e-9, rtol=0)
    assert (values[:-1] >= values[1:]).all()


@pytest.mark.each_value
@pytest.mark.parametrize(("n_coils", "sizes"), [(4, (64, 64)), (16, (48, 60)), (4, (28, 24, 26))])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_smooth_coils_are_recovered(
    n_coils: int, sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    kspace, true, head = scan(n_coils, sizes)
    maps, values = espirit(kspace.to(dtype), "C", XYZ[: len(sizes)], return_eigenvalues=True)
    assert maps.dtype == dtype and values.dtype == maps.real.dtype
    error = disagreement(maps.to(torch.complex128), true)[head]
    assert error.max() < (0.05 if len(sizes) == 2 else 0.1) and error.mean() < 0.01
    assert values[head].min() > 0.95 and values.max() < 1.0001
    images = FFT(len(sizes), centered=True).H(kspace)
    error = disagreement(walsh(images, "C", XYZ[: len(sizes)], window=3), true)[head]
    assert error.max() < 0.1 and error.mean() < 0.02


def test_the_phase_is_that_of_the_principal_component() -> None:
    kspace, _, head = scan(4, (32, 32))
    images = FFT(2, centered=True).H(kspace)
    region = kspace[:, 4:28, 4:28]
    for maps, data in ((espirit(kspace, "C", XY), region), (walsh(images, "C", XY), images)):
        u, _, _ = torch.linalg.svd(data.flatten(1))
        phases = torch.einsum("c,cxy->xy", u[:, 0].conj(), maps)[head].sgn()
        assert (phases - phases[0]).abs().max() < 1e-6  # which a singular vector leaves open
        largest = u[:, 0].abs().argmax()
        assert abs(phases[0] * u[largest, 0].sgn() - 1) < 1e-6


@pytest.mark.parametrize("function", [espirit, walsh])
def test_axes_have_names(function: Callable[..., Any]) -> None:
    data = torch.stack([scan(3, (26, 28))[0], scan(4, (26, 28))[0][1:]])
    expected = torch.stack([function(part, "C", XY) for part in data])
    moved = data.permute(2, 0, 3, 1)
    result = function(moved, "C", XY, ("Kx", "Z", "Ky", "C"))
    torch.testing.assert_close(result, expected.permute(2, 0, 3, 1))
    torch.testing.assert_close(function(moved, "C", "KxKy", ("Kx", "...", "Ky", "C")), result)
    torch.testing.assert_close(function(data, "C", XY, ("...", "C", "Kx", "Ky")), expected)


def test_sets_of_maps_come_first() -> None:
    data = torch.stack([scan(3, (26, 28))[0], scan(4, (26, 28))[0][1:]]).transpose(1, 2)
    dims = ("Z", "Kx", "C", "Ky")
    maps, values = espirit(data, "C", XY, dims, crop=0, n_maps=2, return_eigenvalues=True)
    assert maps.shape == (2, *data.shape) and values.shape == (2, 2, 26, 28)
    one, first = espirit(data, "C", XY, dims, crop=0, return_eigenvalues=True)
    assert torch.equal(maps[0], one) and torch.equal(values[0], first)


def test_crop_sets_maps_to_zero() -> None:
    kspace, _, _ = scan(4, (48, 48))
    maps, values = espirit(kspace, "C", XY, crop=0.9, return_eigenvalues=True)
    norm = maps.norm(dim=0)
    torch.testing.assert_close(norm, (values > 0.9).double())
    assert 0 < norm.mean() < 1


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_maps_do_not_depend_on_the_scale_of_the_data(scale: float) -> None:
    kspace = scan(3, (26, 26))[0].to(torch.complex64)
    torch.testing.assert_close(
        espirit(kspace * scale, "C", XY), espirit(kspace, "C", XY), atol=1e-3, rtol=0
    )
    torch.testing.assert_close(
        walsh(kspace * scale, "C", XY), walsh(kspace, "C", XY), atol=1e-3, rtol=0
    )
    data, expected = compress_coils(kspace * scale, 2), compress_coils(kspace, 2)
    torch.testing.assert_close(data[0] / scale, expected[0], atol=1e-4, rtol=1e-3)


def test_one_coil_has_the_map_one() -> None:
    maps = espirit(randn(1, 24, 24), "C", XY)
    torch.testing.assert_close(maps, torch.ones_like(maps))


@given(
    st.integers(1, 4),
    st.lists(st.integers(1, 5), min_size=2, max_size=3),
    st.sampled_from([1, 3, 5]),
    st.integers(0, 99),
)
def test_walsh_is_the_principal_component_of_a_window(
    n_coils: int, sizes: list[int], window: int, seed: int
) -> None:
    x = randn(n_coils, *sizes, seed=seed)
    names = XYZ[: len(sizes)]
    result = walsh(x, "C", names, ("C", *names), window=window)
    at: tuple[int, ...]
    for at in product(*map(range, sizes)):
        near = [slice(max(0, i - window // 2), i + window // 2 + 1) for i in at]
        u, _, _ = torch.linalg.svd(x[:, *near].flatten(1))
        own = result.movedim(0, -1)[at]
        assert abs((u[:, 0].conj() @ own).abs() - 1) < 1e-6


def test_walsh_is_zero_where_all_images_are() -> None:
    x = torch.zeros(2, 9, 9, dtype=torch.complex64)
    x[:, 0, 0] = torch.tensor([3, 4j])
    expected = torch.zeros(2, 9, 9)
    expected[:, :2, :2] = torch.tensor([0.6, 0.8]).view(2, 1, 1)
    torch.testing.assert_close(walsh(x, "C", XY, window=3).abs(), expected)
    film = torch.stack([torch.zeros_like(x), x])
    maps = walsh(film, "C", XY, ("T", "C", *XY), window=3)
    torch.testing.assert_close(maps.abs(), torch.stack([torch.zeros_like(expected), expected]))


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2), st.data())
def test_compression_keeps_the_energy_of_the_singular_values(
    n_coils: int, before: int, after: int, axis: int, data: st.DataObject
) -> None:
    n_virtual = data.draw(st.integers(1, n_coils))
    x = randn(before, after, n_coils, seed=data.draw(st.integers(0, 99))).movedim(-1, axis)
    dims = ["Z", "K"]
    dims.insert(axis, "C")
    z, matrix = compress_coils(x, n_virtual, "C", dims)
    columns = x.movedim(axis, 0).flatten(1)
    _, singular, _ = torch.linalg.svd(columns)
    kept = singular[:n_virtual].square().sum()
    torch.testing.assert_close(z.abs().square().sum(), kept)
    torch.testing.assert_close(matrix @ matrix.mH, torch.eye(n_virtual, dtype=torch.complex128))
    A = Dense(matrix, ("V", "C"), dims, ["V" if dim == "C" else dim for dim in dims])
    torch.testing.assert_close(A(x), z)
    lost = (A.H(z) - x).abs().square().sum()
    torch.testing.assert_close(lost, singular[n_virtual:].square().sum(), atol=1e-9, rtol=1e-7)


@given(st.integers(1, 5), st.integers(0, 2), st.integers(0, 99))
def test_the_noise_is_white_afterwards(n_coils: int, axis: int, seed: int) -> None:
    mixing = randn(n_coils, n_coils, seed=seed) + 2 * torch.eye(n_coils)
    noise = torch.einsum("cd,kzd->kzc", mixing, randn(3, 4, n_coils, seed=seed + 1))
    noise = noise.movedim(-1, axis)
    dims = ["Kx", "Ky"]
    dims.insert(axis, "C")
    covariance = noise_covariance(noise, "C", dims)
    columns = noise.movedim(axis, 0).flatten(1)
    torch.testing.assert_close(covariance, columns @ columns.mH / 12)
    white, matrix = prewhiten(noise, covariance, "C", dims)
    one = torch.eye(n_coils, dtype=torch.complex128)
    # Exact to rounding, which grows with the condition of the covariance.
    accuracy = 1e-13 * float(torch.linalg.cond(covariance))
    torch.testing.assert_close(noise_covariance(white, "C", dims), one, atol=accuracy, rtol=0)
    torch.testing.assert_close(matrix @ covariance @ matrix.mH, one, atol=accuracy, rtol=0)
    assert torch.equal(matrix.triu(1), torch.zeros_like(matrix))


def test_workspaces_are_small_where_data_are_large() -> None:
    """More than one piece of workspace gives the same as one."""
    x = randn(3, 300, 310).to(torch.complex64)
    gram = noise_covariance(x)
    expected = x.flatten(1).to(torch.complex128)
    torch.testing.assert_close(gram, expected @ expected.mH / expected.shape[1])
    near = walsh(x[:, 120:180], "C", XY)
    phase = (near.conj() * walsh(x, "C", XY)[:, 120:180]).sum(0)[5:-5]
    torch.testing.assert_close(phase.abs(), torch.ones_like(phase.abs()))


DATA = randn(3, 24, 24)
ONES = torch.ones_like(DATA)
UNSAMPLED = DATA.clone()
UNSAMPLED[:, ::2, 3] = 0
INFINITE = DATA.clone()
INFINITE[1, 12, 12] = math.nan


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: espirit(DATA.real, "C", XY), TypeError, "espirit: the data must be .*float64"),
        (lambda: walsh([1], "C", XY), TypeError, "walsh: the data must be .*<class 'list'>"),  # type: ignore[arg-type]
        (lambda: espirit(DATA[0], "C", XY), ValueError, r"dims must name the 2 axes .*'C', 'Kx'"),
        (lambda: walsh(DATA, "Q", XY, ("C", *XY)), ValueError, "coil_dim must be in dims .*'Q'"),
        (lambda: walsh(DATA, "C", XY, ("C", "Kx", "A")), ValueError, "grid_dims must be .*'Ky'"),
        (lambda: walsh(DATA, "C", XY, ("C", "C", "A")), ValueError, "dims must be different names"),
        (lambda: walsh(DATA, "C", ("C", "Kx"), ("C", *XY)), ValueError, "coil_dim and grid_dims"),
        (lambda: espirit(DATA, "C", ("Kx",)), ValueError, "grid_dims must be 2 or 3 dimensions"),
        (lambda: walsh(DATA[:0], "C", XY), ValueError, r"must not be empty, got shape \(0, 24"),
        (lambda: espirit(DATA, "C", XY, n_calibration=5), ValueError, "Kx must have at least 6 c"),
        (lambda: espirit(DATA[:, :, :4], "C", XY), ValueError, "Ky must have at least 6 cal.*4; s"),
        (lambda: espirit(DATA, "C", XY, kernel_size=(3,)), ValueError, "must be one number, or 2 "),
        (lambda: espirit(DATA, "C", XY, kernel_size=1.5), TypeError, "kernel_size must be an int"),  # type: ignore[call-overload]
        (lambda: espirit(DATA, "C", XY, threshold=1e-17), ValueError, "threshold must be at least"),
        (lambda: espirit(DATA, "C", XY, crop=-1), ValueError, "crop must be at least 0"),
        (lambda: espirit(DATA, "C", XY, n_maps=4), ValueError, "at most the 3 coils, got 4"),
        (lambda: espirit(UNSAMPLED, "C", XY), ValueError, "fully, got zeros .* 12 of its 576"),
        (lambda: espirit(INFINITE, "C", XY), ValueError, "calibration region must be finite"),
        (lambda: espirit(DATA, "C", XY, threshold=1e-9), ValueError, "span less than the 108 dim"),
        (lambda: walsh(INFINITE, "C", XY), ValueError, "walsh: the data must be finite"),
        (lambda: walsh(DATA, "C", XY, window=4), ValueError, "window must be odd, got 4"),
        (lambda: compress_coils(DATA, 4), ValueError, "n_coils must be at most the 3 coils, got 4"),
        (lambda: compress_coils(DATA, 0), ValueError, "n_coils must be at least 1"),
        (lambda: compress_coils(INFINITE, 2), ValueError, "compress_coils: the data must be finit"),
        (lambda: noise_covariance(INFINITE), ValueError, "noise_covariance: the data must be fin"),
        (lambda: prewhiten(DATA, 2), TypeError, "covariance must be a torch.Tensor, got"),  # type: ignore[arg-type]
        (
            lambda: prewhiten(DATA, torch.eye(2)),
            ValueError,
            r"for 3 coils, got \(2, 2\); .* set dims",
        ),
        (lambda: prewhiten(DATA, ONES[:, 0, :3].triu()), ValueError, "finite and Hermitian"),
        (lambda: prewhiten(DATA, torch.eye(3) * math.nan), ValueError, "finite and Hermitian"),
        (lambda: prewhiten(DATA, ONES[:, 0, :3]), ValueError, "must be positive definite, got"),
    ],
)
def test_bad_arguments_are_refused(
    call: Callable[[], object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match) as caught:
        call()
    assert caught.type is error  # no class of a private module


@pytest.mark.parametrize(
    "shape",
    [(96, 112, 8), (64, 64, 32), (192, 256, 8), (160, 256, 256, 32), (256, 8, 256), (96, 320, 16)],
)
def test_coils_that_are_not_first_are_refused_unless_dims_says_so(shape: tuple[int, ...]) -> None:
    data = torch.zeros((), dtype=torch.complex64).expand(shape)
    names = XYZ[: len(shape) - 1]
    order = "name the axes by dims=, (" + ", ".join(map(repr, (*names, "C"))) + ") if the coils are"
    for function in (espirit, walsh):
        with pytest.raises(ValueError, match=re.escape(order)):
            function(data, "C", names)
    for call in (
        lambda: compress_coils(data, 4),
        lambda: noise_covariance(data),
    ):
        with pytest.raises(ValueError, match=r"dims=, \('...', 'C'\) if the coils are last"):
            call()
    with pytest.raises(ValueError, match="if axis 0 is not the coils, set dims"):
        prewhiten(data, torch.eye(7))


@pytest.mark.parametrize("shape", [(64, 320, 8), (48, 120, 24)])
def test_a_first_axis_that_is_rarely_the_coils_gets_a_warning(shape: tuple[int, ...]) -> None:
    data = torch.zeros((), dtype=torch.complex64).expand(shape)
    names = XYZ[: len(shape) - 1]
    last = re.escape(", ".join(map(repr, (*names, "C"))))
    for function in (espirit, walsh):
        wrong: Any = {"window": 4} if function is walsh else {"crop": -1}
        with (
            pytest.raises(ValueError, match=r"window must be odd|crop must"),
            pytest.warns(UserWarning, match=rf"{last}\) if the coils are last") as caught,
        ):
            function(data, "C", names, **wrong)
        assert caught[0].filename == __file__
    with (
        pytest.raises(ValueError, match="n_coils must be at most"),
        pytest.warns(UserWarning, match=r"compress_coils: .* \('...', 'C'\) if the coils are last"),
    ):
        compress_coils(data, 65)
    whitened, _ = prewhiten(data[:, :2, :2], torch.eye(shape[0]))  # which says how many coils
    assert whitened.shape[0] == shape[0]


@pytest.mark.parametrize(
    "shape", [(32, 256, 24), (64, 320, 320), (40, 320, 8), (64, 256, 40), (8, 320, 8), (32, 24, 24)]
)
def test_coils_that_may_be_first_get_no_warning(shape: tuple[int, ...]) -> None:
    data = torch.zeros((), dtype=torch.complex64).expand(shape)
    with pytest.raises(ValueError, match="window must be odd"):
        walsh(data, "C", XY, window=4)


def test_coil_last_data_with_dims_are_those_with_coils_first() -> None:
    kspace = scan(4, (32, 28))[0]
    last, dims = kspace.movedim(0, -1), ("Kx", "Ky", "C")
    for function in (espirit, walsh):
        expected = function(kspace, "C", XY).movedim(0, -1)
        torch.testing.assert_close(function(last, "C", XY, dims), expected)
    assert compress_coils(last, 2, "C", dims)[0].shape == (32, 28, 2)


@pytest.mark.parametrize("air", [0.0, math.nan, 1.0])
def test_a_slice_without_maps_is_zero_and_named(air: float) -> None:
    """Zeros, a broken slice, and one of noise alone; sigpy and BART answer for the others."""
    kspace = scan(4, (26, 28))[0]
    data = torch.stack([kspace, air * randn(4, 26, 28), kspace])
    dims = ("Z", "C", "Kx", "Ky")
    with pytest.warns(UserWarning, match=r"espirit: 1 of 3 elements .* no maps, .* at \(1,\): esp"):
        maps, values = espirit(data, "C", XY, dims, return_eigenvalues=True)
    expected = espirit(kspace, "C", XY)
    assert torch.equal(maps, torch.stack([expected, 0 * expected, expected]))
    assert not values[1].any()
    with pytest.raises(ValueError, match=r"calibration region must|patches must span less"):
        espirit(data[1:2], "C", XY, dims)
    if math.isnan(air):
        with pytest.warns(UserWarning, match=r"walsh: 1 of 3 .* at \(1,\): walsh: .* be finite"):
            maps = walsh(data, "C", XY, dims)
        assert not maps[1].any() and torch.equal(maps[0], walsh(kspace, "C", XY))


@pytest.mark.parametrize("n_calibration", [6, 7, 8, 9, 10])
def test_few_calibration_lines_give_maps(n_calibration: int) -> None:
    """BART's maps with ``-c 0`` are as near to the true ones: 0.989 to 0.998 on average."""
    kspace, true, head = scan(4, (64, 64))
    with pytest.warns(UserWarning, match=r"espirit: the \d+ patches .* crop=0.8 makes maps zero"):
        espirit(kspace, "C", XY, n_calibration=n_calibration)
    maps = espirit(kspace, "C", XY, n_calibration=n_calibration, crop=0)
    agreement = (maps.conj() * true).sum(0).abs()[head]
    assert agreement.mean() > (0.985 if n_calibration == 6 else 0.995)


@pytest.mark.parametrize("shape", [(32, 24, 24), (8, 64, 64), (32, 256, 24), (64, 256, 256, 20)])
def test_many_coils_and_small_grids_are_no_contradiction(shape: tuple[int, ...]) -> None:
    data = torch.zeros((), dtype=torch.complex64).expand(shape)
    _coil_axes.axes_of_images("espirit", data, "C", XYZ[: len(shape) - 1], None)


@pytest.mark.parametrize(("scale", "length"), [(1e-20, 1.0), (1e-24, 0.0)])
def test_walsh_is_zero_where_squares_vanish_beside_the_whole(scale: float, length: float) -> None:
    images = torch.ones(2, 4, 4, dtype=torch.complex64)
    images[:, :, 2:] *= scale
    maps = walsh(images, "C", ("Nx", "Ny"), window=1)
    torch.testing.assert_close(maps.norm(dim=0)[:, 2:], torch.full((4, 2), length))
