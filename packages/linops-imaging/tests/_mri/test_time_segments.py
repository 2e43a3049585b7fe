import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import FFT, Dense, Diagonal, NamedLinop
from linops_core.testing import BaseNamedLinopTests
from linops_imaging import NUFFT
from linops_imaging._mri import _time_segments
from linops_imaging._non_uniform._toeplitz_normal import ToeplitzNormal
from linops_imaging.mri import TimeSegments

SIZES = (4, 3)
TIMES = torch.linspace(0.002, 0.012, 5, dtype=torch.float64)


def random(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def uniform(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(lengths, dtype=torch.float64, generator=generator)


def locations(*lengths: int) -> Tensor:
    return (uniform(*lengths, 2) - 0.5) * torch.tensor(SIZES, dtype=torch.float64)


def transform(**options: Any) -> NUFFT:
    return NUFFT(locations(2, 5), SIZES, ("S", "R"), tol=1e-11, **options)


FIELD = 200 * uniform(*SIZES, seed=1) - 80
DECAY = 30 * uniform(*SIZES, seed=2)


class TestTimeSegments(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        F = NUFFT(locations(3), SIZES, ("R",), batch_shape=("C",), method="interpolate")
        return TimeSegments(F, nn.Parameter(FIELD.clone()), TIMES[:3], 2, r2_star=DECAY.clone())

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


def exact(F: NamedLinop, field: Tensor, times: Tensor, decay: Tensor | None = None) -> Tensor:
    """Return the matrix of the exact sum for a transform of one image to (S, R)."""
    rate = 2j * math.pi * field - (0 if decay is None else decay)
    lengths = F(torch.zeros(field.shape)).shape
    evolution = torch.exp(times.expand(lengths).reshape(-1, 1) * rate.reshape(1, -1))
    return F.to_dense(dict(zip(map(str, F.ishape), field.shape, strict=True))) * evolution


@given(st.data())
@settings(max_examples=settings().max_examples // 2)
def test_entries_are_off_by_at_most_the_error(data: st.DataObject) -> None:
    F = transform(batch_shape=())
    n = data.draw(st.sampled_from([1, 2, 4, 8, None]))
    decay = DECAY if data.draw(st.booleans()) else None
    field = data.draw(st.sampled_from([0.2, 1.0, 3.0])) * FIELD
    times, dims = data.draw(
        st.sampled_from([(TIMES, ("R",)), (0.01 * uniform(2, 5), ("S", "R")), (TIMES[:2], ("S",))])
    )
    tol = data.draw(st.sampled_from([1e-2, 1e-5]))
    A = TimeSegments(F, field, times, n, r2_star=decay, time_dims=dims, tol=tol)
    assert n is None or A.n_segments == n
    assert n is not None or A.error <= tol
    at = times if dims[-1] == "R" else times.unsqueeze(-1)
    wanted = exact(F, field, at, decay)
    scale = math.sqrt(math.prod(SIZES))
    assert (A.to_dense() - wanted).abs().max() * scale <= 1.05 * A.error + 1e-9
    assert (A.H.to_dense() - wanted.mH).abs().max() * scale <= 1.05 * A.error + 1e-9


def test_the_error_falls_with_the_number_of_segments() -> None:
    errors = [TimeSegments(transform(), FIELD, TIMES, n).error for n in (2, 4, 6, 8)]
    assert all(later < 0.2 * before for before, later in pairwise(errors))
    A = TimeSegments(transform(), FIELD, TIMES, 4)
    assert "4 segments, error of exponentials up to" in repr(A)


@pytest.mark.parametrize("decay", [0.0, 200.0])
@pytest.mark.parametrize("values", [[0.0, 440.0], [-220.0, 3.0, 220.0], range(0, 1000, 83)])
def test_few_values_are_fitted_where_they_are(values: Sequence[float], decay: float) -> None:
    f = torch.tensor([*values], dtype=torch.float64)
    r2_star = decay * (torch.arange(len(f)) % 2).double()
    t = torch.linspace(0, 0.03, 50, dtype=torch.float64)
    F = NUFFT(torch.zeros(50, 1, dtype=torch.float64), f.shape, ("K",), tol=1e-9)
    A = TimeSegments(F, f, t, r2_star=r2_star)
    exact = torch.exp(torch.outer(t, torch.complex(-r2_star, 2 * math.pi * f)))
    error = (A.to_dense() * len(f) ** 0.5 - exact).abs().max()
    assert error <= A.error + 1e-7 and A.error <= 1e-3


def test_the_phase_of_an_image_grows_with_the_field() -> None:
    image, echoes = random(2, *SIZES), (0.004, 0.0052)
    results = []
    for echo in echoes:
        A = TimeSegments(
            FFT(2, centered=True), FIELD, torch.full((3,), echo, dtype=torch.float64), 1
        )
        results.append(FFT(2, centered=True).H(A(image)))
    phase = (results[0].conj() * results[1]).angle() / (2 * math.pi * (echoes[1] - echoes[0]))
    torch.testing.assert_close(phase, FIELD.expand_as(phase))


def test_lines_of_a_grid_have_times_of_their_own() -> None:
    F = FFT(dims=("Ny",), shape=("Nx", "C", "Ny"), to=("Ky",), centered=True)
    field = 100 * uniform(3, 4)
    A = TimeSegments(F, field.mT, TIMES[:3], tol=1e-8, field_dims=("Nx", "Ny"), time_dims=("Ky",))
    x = random(4, 2, 3)
    n = torch.arange(3) - 1
    rows = torch.exp(-2j * math.pi / 3 * n[:, None] * n) / math.sqrt(3)  # (Ky, Ny)
    evolution = torch.exp(2j * math.pi * TIMES[:3, None, None] * field.mT)  # (Ky, Nx, Ny)
    expected = torch.einsum("kn,kxn,xcn->xck", rows.to(x.dtype), evolution, x)
    torch.testing.assert_close(A(x), expected, atol=1e-7, rtol=0)
    turned = TimeSegments(F, field, TIMES[:3], tol=1e-8, field_dims=("Ny", "Nx"), time_dims=("Ky",))
    torch.testing.assert_close(turned(x), expected, atol=1e-7, rtol=0)


def test_gradients_to_the_maps_are_those_of_the_exact_sum() -> None:
    F, x = transform(batch_shape=("C",)), random(2, *SIZES)
    maps = [FIELD.clone().requires_grad_(), DECAY.clone().requires_grad_()]
    weights = random(2, 2, 5, seed=3)
    A = TimeSegments(F, maps[0], TIMES, tol=1e-7, r2_star=maps[1])
    result = torch.autograd.grad((A(x) * weights).real.sum(), maps)
    matrix = exact(transform(batch_shape=()), maps[0], TIMES, maps[1])
    y = (x.flatten(1) @ matrix.mT).reshape(2, 2, 5)
    expected = torch.autograd.grad((y * weights).real.sum(), maps)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("toeplitz", [False, True])
def test_tiles_of_segments_and_coils_make_up_the_whole(toeplitz: bool) -> None:
    maps = Dense(random(2, *SIZES), ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    A = TimeSegments(transform(toeplitz=toeplitz), FIELD, TIMES, 4) @ maps
    x, y = random(*SIZES), random(2, 2, 5)
    for linop, own in ((A, x), (A.H, y), (A.N, x)):
        inside = [linop.split(linop, {"Segment": slice(n, n + 2)}) for n in (0, 2)]
        if linop is A.N:  # its segments are on both sides
            inside = [
                tile.split(tile, {"Segment1": slice(n, n + 2)}) for tile in inside for n in (0, 2)
            ]
        torch.testing.assert_close(sum(tile(own) for tile in inside), linop(own))
    tile = A.split(A, {"C": slice(1, 2), "Segment": slice(1, 2)})
    others = [A.split(A, {"C": slice(1, 2), "Segment": slice(*ends)}) for ends in ((0, 1), (2, 4))]
    torch.testing.assert_close(tile(x) + others[0](x) + others[1](x), A(x)[1:])
    evolution = next(part for part in tile.modules() if hasattr(part, "field_map"))
    assert evolution(x[None]).shape == (1, 1, *SIZES)  # a tile makes its segments only


def test_the_normal_operator_convolves_pairs_of_segments() -> None:
    A = TimeSegments(transform(toeplitz=True), FIELD, TIMES, 3, r2_star=DECAY)
    W = Diagonal.from_weight(uniform(2, 5), ("S", "R"), A.oshape)
    x = random(2, *SIZES)
    for normal, expected in ((A.N, A.H(A(x))), ((W @ A).N, A.H(W(W(A(x)))))):
        assert any(isinstance(part, ToeplitzNormal) for part in normal.flatten())
        torch.testing.assert_close(normal(x), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("field", [torch.zeros(SIZES), torch.full(SIZES, 1e3)])
def test_one_frequency_needs_one_segment(field: Tensor) -> None:
    F = transform(batch_shape=())
    field = field.double()
    A = TimeSegments(F, field, TIMES, tol=1e-9)
    assert A.n_segments == 1
    wanted = exact(F, field, TIMES)
    torch.testing.assert_close(A.to_dense(), wanted, atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"transform": 3}, TypeError, "transform must be a NamedLinop"),
        ({"field_map": FIELD + 0j}, TypeError, "field_map must be a tensor of real numbers"),
        ({"field_map": FIELD * math.nan}, ValueError, "field_map must be finite"),
        ({"times": [0.0]}, TypeError, "times must be a tensor of real numbers"),
        ({"times": torch.tensor(0.01)}, ValueError, "time_dims must be 0 dimensions"),
        ({"time_dims": ("Nx",)}, ValueError, "time_dims must be 1 dimensions of the transform's"),
        ({"field_dims": ("Nx", "Nx")}, ValueError, "field_dims must be 2 dimensions"),
        ({"field_map": FIELD[:, :2]}, ValueError, r"field_dims must be the .* \(4, 2\)"),
        ({"times": TIMES[:2]}, ValueError, r"time_dims must be the .* \(2,\) among"),
        ({"r2_star": DECAY[:2]}, ValueError, "r2_star must have the shape"),
        ({"n_segments": 2.5}, TypeError, "n_segments must be an integer"),
        ({"n_segments": 0}, ValueError, "n_segments must be at least 1"),
        ({"tol": 0.0}, ValueError, "tol must be positive"),
        ({"segment_dim": "Nx"}, ValueError, "segment_dim must not be a dimension"),
        ({"tol": 1e-6}, ValueError, "check that the field map is in Hz"),
    ],
)
def test_what_is_wrong_is_refused(
    arguments: dict[str, Any],
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_time_segments, "_MOST_SEGMENTS", 4)
    given = {"transform": transform(), "field_map": FIELD, "times": TIMES, "tol": 0.5}
    with pytest.raises(error, match=message):
        TimeSegments(**{**given, **arguments})


@pytest.mark.parametrize("n_coils", [None, 2])
def test_coils_behind_the_samples_are_not_taken_for_times(n_coils: int | None) -> None:
    F: NamedLinop = NUFFT(locations(5), SIZES, dims=("X", "Y"), shape=("X", "Y", "C"), to=("R",))
    if n_coils:
        maps = random(n_coils, *SIZES)
        F = F @ Dense(maps, ("C", "X", "Y"), ("X", "Y"), ("X", "Y", "C"))
        message = r"TimeSegments: time_dims must be the dimensions with the sizes \(5,\) among"
        with pytest.raises(ValueError, match=message):
            TimeSegments(F, FIELD, TIMES)
    A = TimeSegments(F, FIELD, TIMES, time_dims=("R",) if n_coils else None)
    assert A.oshape == ("R", "C") and A.size("R") == 5


@pytest.mark.parametrize("shape", [("X", "Y", "C"), ("X", "C", "Y"), ("C", "X", "Y")])
def test_coils_at_any_place_are_not_taken_for_pixels(shape: tuple[str, ...]) -> None:
    lengths = {"X": 4, "Y": 3, "C": 3}  # as many coils as columns
    field, times = uniform(4, 3), 0.01 * uniform(4, 3, seed=1)
    x = random(*[lengths[dim] for dim in shape])
    at, usual = ("C", "X", "Y"), FFT(2, centered=True)
    expected = TimeSegments(usual, field, times)(x.permute([shape.index(dim) for dim in at]))
    A = TimeSegments(FFT(dims=("X", "Y"), shape=shape, to=("K", "L"), centered=True), field, times)
    order = [at.index(dim) for dim in shape]
    torch.testing.assert_close(A(x), expected.permute(order))
