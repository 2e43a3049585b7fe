"""Reconstructions in one call: against dense matrices and closed forms."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import torchlinops as tl
from linops_core import SplitError
from torchlinops import recon
from torchlinops.recon._arrays import is_all_finite

SIZES = {"C": 3, "B": 2, "T": 3, "Kx": 4, "Ky": 3}
FUNCTIONS = [recon.sense, recon.l1_wavelet, recon.total_variation]


def random(*dims: str, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn([SIZES[dim] for dim in dims], dtype=torch.complex128, generator=generator)


def image_dims(dims: Sequence[str]) -> list[str]:
    return [dim.replace("K", "N") for dim in dims if dim != "C"]


def operator(maps: Tensor, weights: Tensor) -> tl.NamedLinop:
    """Return the operator of a scan (C, B, Kx, Ky), written by hand."""
    S = tl.Dense(maps, ("C", "B", "Nx", "Ny"), ("B", "Nx", "Ny"), ("C", "B", "Nx", "Ny"))
    W = tl.Diagonal.from_weight(weights.sqrt(), ("B", "Kx", "Ky"), ("C", "B", "Kx", "Ky"))
    return W @ tl.FFT(2, ("C", "B"), centered=True) @ S


@settings(max_examples=settings().max_examples // 3)
@given(st.permutations(["C", "B", "Kx", "Ky"]), st.integers(0, 99), st.booleans())
def test_sense_is_the_least_squares_solution_for_axes_in_any_order(
    dims: list[str], seed: int, is_numpy: bool
) -> None:
    own = ["C", "B", "Kx", "Ky"]
    kspace, maps = random(*own, seed=seed), random(*own, seed=seed + 1)
    weights = random(*own[1:], seed=seed + 2).abs()
    A = operator(maps, weights)
    matrix = A.to_dense().reshape(kspace.numel(), -1)
    right = matrix.mH @ (weights.sqrt() * kspace).flatten()
    wanted = torch.linalg.solve(matrix.mH @ matrix + 0.5 * torch.eye(len(right)), right)
    order = [own.index(dim) for dim in dims]
    arrays = [x.permute(order) for x in (kspace, maps)]
    without = [own[1:].index(dim) for dim in dims if dim != "C"]
    arrays.append(weights.permute(without))
    given: list[Any] = [x.numpy() for x in arrays] if is_numpy else arrays
    result = recon.sense(
        *(given[0], dims, given[1]),
        weights=given[2],
        ridge=0.5,
        tol=1e-12,
        max_num_iters=200,
    )
    assert isinstance(result, np.ndarray if is_numpy else Tensor)
    wanted = wanted.reshape([SIZES[dim] for dim in own[1:]]).permute(without)
    torch.testing.assert_close(torch.as_tensor(result), wanted)


def test_maps_and_weights_without_slices_are_those_of_every_slice() -> None:
    kspace, maps = random("B", "C", "Kx", "Ky"), random("C", "Kx", "Ky")
    weights = torch.ones(4, 3)
    weights[1] = 0
    dims = ("B", "C", "Kx", "Ky")
    result = recon.sense(kspace, dims, maps, weights=weights, ridge=0.1)
    all_maps = maps.expand(2, 3, 4, 3)
    wanted = recon.sense(kspace, dims, all_maps, weights=weights.expand(2, 4, 3), ridge=0.1)
    torch.testing.assert_close(result, wanted)
    # Zeros of all coils were not measured.
    zeros = recon.sense(kspace * weights, dims, maps, ridge=0.1)
    torch.testing.assert_close(zeros, wanted)
    # With little memory it is computed in parts.
    parts = recon.sense(kspace, dims, maps, weights=weights, ridge=0.1, memory="1 kB")
    torch.testing.assert_close(parts, wanted)
    # Nor is what the mask leaves out.
    masked = recon.sense(kspace, dims, maps, weights=weights > 0, ridge=0.1)
    torch.testing.assert_close(masked, wanted)


@pytest.mark.parametrize("dims", [("Kc", "Kx", "Ky"), ("Kx", "Kc", "Ky")])
def test_coils_may_have_a_name_that_begins_like_k_space(dims: tuple[str, ...]) -> None:
    own = tuple(dim.replace("Kc", "C") for dim in dims)
    kspace, maps = random(*own), random(*own, seed=1)
    result = recon.sense(kspace, dims, maps, coil_dim="Kc", ridge=0.1)
    torch.testing.assert_close(result, recon.sense(kspace, own, maps, ridge=0.1))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_trajectory_over_the_grid_gives_the_image_of_the_grid(
    function: Callable[..., Tensor],
) -> None:
    n = (8, 6)
    kspace = torch.randn(2, 3, *n, dtype=torch.complex128)
    maps = torch.randn(2, *n, dtype=torch.complex128)
    kx, ky = torch.meshgrid(torch.arange(8.0) - 4, torch.arange(6.0) - 3, indexing="ij")
    locs = torch.stack([kx, ky], -1).flatten(0, 1)
    options: Any = {
        "max_num_iters": 8,
        "tol": 0,
        **({"wavelet": "haar"} if "wavelet" in function.__name__ else {}),
    }
    wanted = function(kspace, ("C", "B", "Kx", "Ky"), maps, **options)
    for own in (locs, locs.expand(3, -1, 2)):
        weights = torch.ones(own.shape[:-1])
        result = function(
            kspace.flatten(-2).movedim(0, -1),
            ("B", "K", "C"),
            maps.movedim(0, -1),
            locs=own,
            grid_size=n,
            weights=weights,
            **options,
        )
        torch.testing.assert_close(result, wanted, rtol=2e-2, atol=2e-2)


def test_l1_wavelet_of_a_whole_scan_shrinks_its_coefficients() -> None:
    image = torch.randn(8, 4, dtype=torch.complex128)
    kspace = tl.FFT(2, centered=True)(image)
    W = tl.Wavelet("haar", ("Nx", "Ny"), (8, 4))
    penalty = tl.soft_threshold(0.2 * float(image.abs().max()))
    result = recon.l1_wavelet(
        *(kspace[None], ("C", "Kx", "Ky"), torch.ones(1, 8, 4)),
        wavelet="haar",
        weight=0.2,
        tol=1e-9,
    )
    torch.testing.assert_close(result, W.H(penalty(W(image), 1.0)))


def test_total_variation_is_the_minimum() -> None:
    image = torch.randn(2, 5, 4, dtype=torch.complex128)
    y, A = tl.FFT(2, centered=True)(image), tl.FFT(2, ("B",), centered=True)
    result = recon.total_variation(
        *(y[None], ("C", "B", "Kx", "Ky"), torch.ones(1, 5, 4)),
        weight=0.1,
        tol=1e-8,
        max_num_iters=200,
    )
    G = tl.Gradient(("Nx", "Ny"), (5, 4), boundary="replicate")
    weight = 0.1 * image.abs().amax((1, 2), keepdim=True)  # of each slice

    def objective(x: Tensor) -> float:
        return float((A(x) - y).norm() ** 2 / 2 + (weight * G(x).norm(dim=0)).sum())

    penalties = [tl.alg.l2_squared(center=y), tl.alg.group_soft_threshold(weight)]
    other = tl.pdhg([A, G], penalties, tl.alg.no_penalty(), image, 2000, eps_rel=1e-8)
    assert objective(result) <= objective(other) * (1 + 1e-6)
    torch.testing.assert_close(result, other, rtol=1e-3, atol=1e-3)


def test_low_rank_plus_sparse_is_either_part_where_the_other_costs_too_much() -> None:
    series = torch.randn(2, 4, 6, 5, dtype=torch.complex128)  # slices, frames
    kspace, maps = tl.FFT(2, centered=True)(series)[:, None], torch.ones(1, 6, 5)
    dims = ("Z", "C", "T", "Kx", "Ky")
    rows = series.flatten(2)
    largest = torch.linalg.svdvals(rows).amax(1)  # of each slice
    options: Any = {"tol": 1e-9, "max_num_iters": 300}
    L, S = recon.low_rank_plus_sparse(
        kspace, dims, maps, low_rank_weight=0.3, sparse_weight=100.0, **options
    )
    parts = [
        tl.alg.nuclear_norm(0.3 * float(weight))(one, 1.0)
        for one, weight in zip(rows, largest, strict=True)
    ]
    wanted = torch.stack(parts).view_as(series)
    torch.testing.assert_close(L, wanted, rtol=1e-5, atol=1e-5)
    assert not S.any()
    L, S = recon.low_rank_plus_sparse(
        kspace, dims, maps, low_rank_weight=100.0, sparse_weight=0.2, **options
    )
    F = tl.FFT(dims=("T",), shape=("Z", "T", "Nx", "Ny"))
    weight = 0.2 * series.abs().amax((1, 2, 3), keepdim=True)
    wanted = F.H(tl.soft_threshold(weight)(F(series), 1.0))
    torch.testing.assert_close(S, wanted, rtol=1e-5, atol=1e-5)
    assert not L.any()


def test_low_rank_plus_sparse_separates_background_and_changes() -> None:
    series, kspace, maps = dynamic_scan()
    parts = recon.low_rank_plus_sparse(kspace.numpy(), ("T", "C", "Kx", "Ky"), maps.numpy())
    assert isinstance(parts.low_rank, np.ndarray)
    total = torch.as_tensor(parts.low_rank + parts.sparse)
    assert (total - series).norm() < 0.1 * series.norm()
    assert np.linalg.norm(parts.sparse) < 0.5 * np.linalg.norm(parts.low_rank)


def dynamic_scan() -> tuple[Tensor, Tensor, Tensor]:
    """Return a series (T, Nx, Ny), its k-space (T, C, Kx, Ky) and the maps."""
    n = (32, 32)
    head, maps = tl.phantoms.shepp_logan(n), tl.phantoms.CoilSeries.around(4).on_grid(n)
    series = head.repeat(6, 1, 1)
    series[:, 14:18, 14:18] += torch.linspace(0, 0.5, 6)[:, None, None]
    masks = [tl.masks.poisson_disc(n, acceleration=2, calibration=12, seed=t) for t in range(6)]
    scan = tl.FFT(2, centered=True)(maps * series[:, None])
    return series, torch.stack(masks)[:, None] * scan, maps


@pytest.mark.parametrize("calibration", [6, 8, 12, None])
def test_maps_are_made_from_the_centre_of_k_space(calibration: int | None) -> None:
    n = (32, 32)
    head, coils = tl.phantoms.shepp_logan(n), tl.phantoms.CoilSeries.around(4)
    maps = coils.on_grid(n)
    options: Any = {}
    if calibration is not None:
        dims = ("C", "Kx", "Ky")
        mask = tl.masks.poisson_disc(n, acceleration=2, calibration=calibration)
        kspace = mask * tl.FFT(2, centered=True)(maps * head)
    else:
        dims = ("C", "K1", "K2")
        options = {"locs": tl.trajectories.radial_2d(50, 64, n), "grid_size": n}
        kspace = tl.phantoms.shepp_logan_kspace(options["locs"], n, coils)
    result = recon.sense(kspace, dims, **options)
    wanted = recon.sense(kspace, dims, maps / maps.norm(dim=0), **options)
    inside = head > 0.1
    assert (result.abs() - wanted.abs())[inside].norm() < 0.1 * wanted[inside].norm()


@pytest.mark.parametrize("n", [(32, 7), (6, 32)])
def test_maps_are_made_for_short_axes(n: tuple[int, int]) -> None:
    head, maps = tl.phantoms.shepp_logan(n), tl.phantoms.CoilSeries.around(4).on_grid(n)
    kspace = tl.FFT(2, centered=True)(maps * head)
    result = recon.sense(kspace, ("C", "Kx", "Ky"))
    wanted = head * maps.norm(dim=0)
    assert (result.abs() - wanted.abs()).norm() < 0.01 * wanted.norm()


def test_frames_share_the_maps_of_their_mean() -> None:
    _, kspace, _ = dynamic_scan()
    L, S = recon.low_rank_plus_sparse(kspace, ("T", "C", "Kx", "Ky"), max_num_iters=5, tol=0)
    # A frame is zero where the maps are, and these are the same for all frames.
    zero = (L + S) == 0
    assert zero.any() and (zero == zero[0]).all()


@pytest.mark.parametrize("function", [*FUNCTIONS, recon.low_rank_plus_sparse])
def test_a_record_gets_an_objective_that_decreases(function: Callable[..., Any]) -> None:
    _, kspace, maps = dynamic_scan()
    record = tl.Record()
    function(kspace, ("T", "C", "Kx", "Ky"), maps, max_num_iters=4, tol=0, callback=record)
    values = record.values["objective"]
    assert len(values) >= 4 and values[-1] < values[0]


@pytest.mark.parametrize(("of_kspace", "of_maps"), [(2.0**-80, 0.1), (2.0**80, 10.0)])
@pytest.mark.parametrize("function", [*FUNCTIONS, recon.low_rank_plus_sparse])
def test_the_units_of_k_space_and_maps_are_those_of_the_image(
    function: Callable[..., Any], of_kspace: float, of_maps: float
) -> None:
    """Low rank plus sparse began at A^H y, which is 100 times too large if maps are 10 times."""
    _, kspace, maps = dynamic_scan()
    options: Any = {"max_num_iters": 3, "tol": 0}
    dims = ("T", "C", "Kx", "Ky")
    wanted = function(kspace, dims, maps, **options)
    result = function(of_kspace * kspace, dims, of_maps * maps, **options)
    for one, other in zip(result, wanted, strict=True):
        unit = of_maps / of_kspace
        torch.testing.assert_close(
            unit * one, other, rtol=1e-3, atol=1e-3 * float(other.abs().max())
        )


@pytest.mark.parametrize("function", [*FUNCTIONS, recon.low_rank_plus_sparse])
def test_no_slices_give_no_images(function: Callable[..., Any]) -> None:
    options: Any = {"wavelet": "haar"} if "wavelet" in function.__name__ else {}
    kspace = torch.zeros(0, 2, 3, 8, 8, dtype=torch.complex64)
    arguments: list[Any] = [
        {"maps": torch.ones(3, 8, 8)},
        {"maps": torch.ones(3, 8, 8), "memory": "1 GiB"},
        {},
    ]
    for each in arguments:
        result = function(kspace, ("B", "T", "C", "Kx", "Ky"), **options, **each)
        for one in result if isinstance(result, tuple) else [result]:
            assert one.shape == (0, 2, 8, 8)


@pytest.mark.parametrize("function", [*FUNCTIONS, recon.low_rank_plus_sparse])
def test_gradients_reach_k_space_and_no_signal_gives_no_image(
    function: Callable[..., Any],
) -> None:
    n = (8, 8)
    kspace = torch.randn(2, 2, *n, dtype=torch.complex128, requires_grad=True)
    maps = torch.randn(2, *n, dtype=torch.complex128)
    options: Any = {"max_num_iters": 2, "tol": 0}
    if "wavelet" in function.__name__:
        options["wavelet"] = "haar"
    dims = ("C", "T", "Kx", "Ky")
    result = function(kspace, dims, maps, **options)
    total: Any = sum(result) if isinstance(result, tuple) else result
    (gradient,) = torch.autograd.grad(total.abs().sum(), kspace)
    assert gradient.isfinite().all() and gradient.any()
    nothing = function(torch.zeros(2, 2, *n, dtype=torch.complex128), dims, maps, **options)
    assert not any(x.any() for x in (nothing if isinstance(nothing, tuple) else [nothing]))


def test_no_memory_is_written_and_any_numpy_layout_is_read() -> None:
    kspace, maps = random("C", "Kx", "Ky").numpy(), random("C", "Kx", "Ky", seed=1).numpy()
    wanted = recon.sense(kspace, ("C", "Kx", "Ky"), maps)
    fixed = kspace.copy()
    fixed.flags.writeable = False
    swapped, turned = kspace.astype(">c16"), kspace[::-1].copy()[::-1]
    for other in (fixed, swapped, turned):
        np.testing.assert_array_equal(recon.sense(other, ("C", "Kx", "Ky"), maps), wanted)


@pytest.mark.parametrize("has_maps", [True, False])
@pytest.mark.parametrize("function", [*FUNCTIONS, recon.low_rank_plus_sparse])
def test_kspace_must_be_finite_where_it_counts(
    function: Callable[..., Any], has_maps: bool
) -> None:
    n, owner = (8, 8), function.__name__
    kspace = torch.randn(2, 3, *n, dtype=torch.complex64)
    maps = torch.randn(2, *n, dtype=torch.complex64) if has_maps else None
    options: Any = {"max_num_iters": 2, "tol": 0}
    options |= {"wavelet": "haar"} if "wavelet" in owner else {}
    dims = ("C", "T", "Kx", "Ky")
    message = f"{owner}: kspace must be finite, got NaN or infinity"
    bad: Any
    for bad in (math.nan, math.inf, complex(0, -math.inf)):
        kspace[1, 2, 0, 7] = bad
        for array in (kspace, kspace.numpy(), kspace.conj()):
            with pytest.raises(ArithmeticError, match=message):
                function(array, dims, maps, **options)
    if maps is None:
        return
    options["weights"] = torch.ones(n)
    options["weights"][0, 7] = 0
    result = function(kspace, dims, maps, **options)
    wanted = function(kspace.nan_to_num(), dims, maps, **options)
    for one, other in zip(result, wanted, strict=True):
        assert torch.equal(one, other)


def test_finite_numbers_may_have_a_sum_out_of_range() -> None:
    assert is_all_finite(torch.full((3,), 3e38 + 1j, dtype=torch.complex64))
    assert is_all_finite(torch.zeros(0, dtype=torch.complex64))


def refusals() -> list[tuple[dict[str, Any], type[Exception], str]]:
    locs, dims = torch.zeros(12, 2), ("C", "K")
    flat = random("C", "Kx", "Ky").flatten(1)
    trajectory = {"kspace": flat, "dims": dims, "locs": locs, "maps": None}
    return [
        ({"kspace": torch.ones(3, 4, 3)}, TypeError, "kspace must be of complex64 or complex128"),
        ({"kspace": [1.0]}, TypeError, "kspace must be a tensor or a NumPy array, got"),
        ({"maps": "maps"}, TypeError, "maps must be a tensor or a NumPy array, got"),
        ({"dims": ("C", "Kx")}, ValueError, "dims must name the 3 axes of kspace, each once"),
        ({"dims": ("C", "Kx", "Kx")}, ValueError, "dims must name the 3 axes"),
        ({"dims": ("D", "Kx", "Ky")}, ValueError, "the coils C, or the name in coil_dim"),
        ({"dims": ("C", "Nx", "Ny")}, ValueError, "k-space by names that begin with K"),
        ({"dims": ("C", "Kx", "B")}, ValueError, "must have two or three axes that begin with K|K"),
        ({"dims": ("C", "...", "Ky")}, ValueError, "dims must name the 3 axes"),
        ({"ridge": -1.0}, ValueError, "sense: ridge must be at least 0 and finite, got -1"),
        ({"grid_size": (4, 3)}, ValueError, "and no grid_size"),
        ({"maps": random("Kx", "Ky", "C")}, ValueError, r"maps must have the axes \(C, Nx, Ny\)"),
        ({"weights": torch.ones(3, 4)}, ValueError, r"weights must have the axes \(Kx, Ky\)"),
        (
            {"weights": -torch.ones(4, 3)},
            ValueError,
            "weights must be finite and not negative, got values from -1",
        ),
        (
            {"weights": torch.ones(4, 3, dtype=torch.complex64)},
            TypeError,
            "sense: weights must be bool or real, got torch.complex64",
        ),
        ({"ridge": "a"}, TypeError, "sense: ridge must be a real number, got 'a'"),
        ({"maps": random("C", "Kx", "Ky") * math.nan}, ValueError, "sense: maps must be finite"),
        ({"maps": None}, ValueError, "the centre of k-space must be measured at 6 points"),
        (
            {"maps": None, "kspace": torch.zeros(2, 8, 8, dtype=torch.complex64)},
            ValueError,
            "sense: to make coil maps, the centre of k-space must be measured .*; give maps$",
        ),
        (
            {**trajectory, "locs": locs, "grid_size": 4},
            TypeError,
            "sense: grid_size must be a sequence of ints, got 4",
        ),
        (trajectory, ValueError, "grid_size must be given with locs, got None"),
        (
            {**trajectory, "locs": locs[:5], "grid_size": (4, 3)},
            ValueError,
            r"locs must have the axes \(K\) of the sizes \(12,\), got the shape \(5, 2\)",
        ),
        ({"kspace": random("C", "Kx", "Ky") * torch.nan}, ArithmeticError, "finite"),
        # The axes of the image may not have other meanings in hybrid space.
        (
            {**trajectory, "kspace": flat.reshape(3, 4, 3), "dims": ("C", "Nx", "K")}
            | {"locs": locs[:3], "grid_size": (8, 8)},
            ValueError,
            r"sense: dims must not have the names of the pixels .*Nx.*Ny.*, got Nx in .*; give th",
        ),
        (
            {"kspace": random("C", "B", "Kx", "Ky"), "dims": ("C", "Nx", "Kx", "Ky")},
            ValueError,
            "sense: dims must not have the names of the pixels .*, got Nx in",
        ),
        (
            {"dims": ("Ny", "Kx", "Ky"), "coil_dim": "Ny"},
            ValueError,
            "sense: dims must not have the names of the pixels .*, got Ny in",
        ),
    ]


@pytest.mark.parametrize(("change", "error", "match"), refusals())
def test_what_does_not_fit_is_refused(
    change: dict[str, Any], error: type[Exception], match: str
) -> None:
    arguments: Any = {"kspace": random("C", "Kx", "Ky"), "dims": ("C", "Kx", "Ky")}
    arguments |= {"maps": random("C", "Kx", "Ky", seed=1)}
    with pytest.raises(error, match=match):
        recon.sense(**(arguments | change))


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (
            {"memory": "100 B"},
            SplitError,
            r"^sense: memory must be at least \d+ bytes in at most 64 tiles along \(C\), got 100; "
            "give more memory, or fewer slices or frames at once$",
        ),
        ({"memory": "1 elephant"}, ValueError, "^sense: memory must be a number, alone or with B"),
        ({"memory": [1]}, TypeError, "^sense: memory must be a number of bytes"),
        ({"max_num_iters": -1}, ValueError, "^sense: max_num_iters must be at least 0, got -1$"),
        ({"tol": "a"}, TypeError, "^sense: tol must be a real number, got 'a'$"),
        ({"progress": 2}, TypeError, "^sense: progress must be True or False, got 2$"),
        ({"callback": 2}, TypeError, "^sense: callback must be a function, got 2$"),
        ({"coil_dim": 3}, TypeError, "^sense: a name must be a string, got 3"),
        ({"dims": None}, TypeError, "^sense: a dimension must be a string, or an iterable"),
        ({"locs": torch.full((12, 2), 100.0)}, ValueError, "^sense: the locations must be in"),
        ({"locs": torch.zeros(12, 3)}, ValueError, "^sense: the last dimension of the locations"),
        ({"locs": torch.zeros(12, 2).bool()}, TypeError, "^sense: the locations must be a tensor"),
        ({"grid_size": (4, -3)}, ValueError, "^sense: each number of grid_size must be at least 1"),
        ({"grid_size": (True, 3)}, TypeError, "^sense: each number of grid_size must be an int"),
        (
            {"grid_size": ()},
            ValueError,
            r"^sense: grid_size must be one to three numbers, got \(\)",
        ),
    ],
)
def test_messages_name_the_function_that_was_called(
    change: dict[str, Any], error: type[Exception], match: str
) -> None:
    arguments: Any = {"kspace": random("C", "Kx", "Ky"), "dims": ("C", "Kx", "Ky")}
    arguments |= {"maps": random("C", "Kx", "Ky", seed=1)}
    if {"locs", "grid_size"} & {*change}:
        arguments["kspace"], arguments["dims"] = arguments["kspace"].flatten(1), ("C", "K")
        arguments |= {"locs": torch.zeros(12, 2), "grid_size": (4, 3)}
    with pytest.raises(error, match=match):
        recon.sense(**(arguments | change))


def test_errors_of_a_callback_stay_as_they_are() -> None:
    def fail(step: tl.alg.Step) -> None:
        raise ValueError("mine: stop")

    kspace, maps = random("C", "Kx", "Ky"), random("C", "Kx", "Ky", seed=1)
    with pytest.raises(ValueError, match=r"^mine: stop$"):
        recon.sense(kspace, ("C", "Kx", "Ky"), maps, callback=fail)


@pytest.mark.parametrize("grid_size", [[4, 3], np.array((4, 3)), torch.tensor([4, 3])])
def test_any_sequence_of_integers_is_a_grid_size(grid_size: Any) -> None:
    kspace, maps = random("C", "Kx", "Ky").flatten(1), random("C", "Kx", "Ky", seed=1)
    options: Any = {"locs": torch.rand(12, 2), "max_num_iters": 2, "tol": 0}
    result = recon.sense(kspace, ("C", "K"), maps, grid_size=grid_size, **options)
    wanted = recon.sense(kspace, ("C", "K"), maps, grid_size=(4, 3), **options)
    assert torch.equal(result, wanted)


def test_time_must_be_named() -> None:
    kspace, dims = random("C", "Kx", "Ky"), ("C", "Kx", "Ky")
    with pytest.raises(ValueError, match="time_dim must be in dims"):
        recon.low_rank_plus_sparse(kspace, dims)
    with pytest.raises(TypeError, match=r"^low_rank_plus_sparse: a name must be a string, got 1"):
        recon.low_rank_plus_sparse(kspace, dims, time_dim=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["l1_wavelet", "total_variation"])
def test_weights_of_penalties_are_numbers(name: str) -> None:
    arguments: Any = {"kspace": random("C", "Kx", "Ky"), "dims": ("C", "Kx", "Ky"), "weight": "b"}
    with pytest.raises(TypeError, match=f"{name}: weight must be a real number, got 'b'"):
        getattr(recon, name)(**arguments)


@pytest.mark.parametrize("is_of_maps", [False, True])
def test_a_batch_of_vmap_is_refused_by_name(is_of_maps: bool) -> None:
    kspace, maps = random("B", "C", "Kx", "Ky"), random("C", "Kx", "Ky")

    def solved(x: Tensor) -> Tensor:
        arrays = (kspace[0], x) if is_of_maps else (x, maps)
        return recon.sense(arrays[0], ("C", "Kx", "Ky"), arrays[1])

    name = "maps" if is_of_maps else "kspace"
    with pytest.raises(ValueError, match=f"sense: {name} must have values .*, got a batch of vmap"):
        torch.func.vmap(solved)(kspace)


@pytest.mark.parametrize("size", [1, 6])
def test_the_advice_for_an_axis_shorter_than_the_wavelet_helps(size: int) -> None:
    kspace, maps = torch.randn(2, 16, 16, size, dtype=torch.complex64), torch.ones(2, 16, 16, size)
    dims = ["C", "Kx", "Ky", "Kz"]
    rule = r"l1_wavelet: Nz must have at least 14 points for 'db4', got"
    with pytest.raises(ValueError, match=rf'^{rule} {size}; choose .* such as "haar"; an axis of'):
        recon.l1_wavelet(kspace, dims, maps)
    options: Any = {"wavelet": "haar"} if size > 1 else {}
    dims[3] = "Kz" if size > 1 else "S"
    assert recon.l1_wavelet(kspace, dims, maps, **options).shape == (16, 16, size)


def test_the_wavelet_must_be_known() -> None:
    kspace, maps = random("C", "Kx", "Ky"), random("C", "Kx", "Ky", seed=1)
    with pytest.raises(ValueError, match=r"^l1_wavelet: wavelet must be .*, got 'x'"):
        recon.l1_wavelet(kspace, ("C", "Kx", "Ky"), maps, wavelet="x")


def test_total_variation_needs_pixels() -> None:
    kspace, maps = random("C", "Kx", "Ky")[..., :0], random("C", "Kx", "Ky")[..., :0]
    with pytest.raises(ValueError, match=r"^total_variation: sizes must be 2 positive integers"):
        recon.total_variation(kspace, ("C", "Kx", "Ky"), maps)
