"""Both ways to correlate, against explicit loops and against each other."""

from collections.abc import Sequence
from itertools import product
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from linops_core._kernels import _correlate
from linops_core._kernels._correlate import correlated
from linops_core._kernels._extended_axis import ExtendedAxis, Extension
from linops_core._kernels._halo import Axis
from linops_core.testing.strategies._grid_operators import beyond

MODES: tuple[Extension, ...] = get_args(Extension)


def by_loops(x: Tensor, weight: Tensor, axes: Sequence[ExtendedAxis], is_back: bool) -> Tensor:
    dtype = torch.promote_types(x.dtype, weight.dtype)
    y = torch.zeros(x.shape[0], *(axis.lengths[not is_back] for axis in axes), dtype=dtype)
    for n in product(*(range(axis.n_output) for axis in axes)):
        for j in product(*map(range, weight.shape[1:])):
            at = [p + k - axis.before for p, k, axis in zip(n, j, axes, strict=True)]
            at = [source(a, axis) for a, axis in zip(at, axes, strict=True)]
            if all(0 <= a < axis.n_input for a, axis in zip(at, axes, strict=True)):
                here, there = (n, at) if is_back else (at, n)
                y[batch(there)] += weight[batch(j)] * x[batch(here)]
    return y


def source(a: int, axis: ExtendedAxis) -> int:
    """Return which element of the input is at a place of the extended axis."""
    return beyond(a + axis.start, axis.size, axis.mode) - axis.start


def batch(at: Sequence[int]) -> tuple[slice | int, ...]:
    return (slice(None), *at)


def whole(
    grid: Sequence[int], weight: Tensor, before: Sequence[int], circular: bool
) -> list[ExtendedAxis]:
    taps, mode = weight.shape[weight.ndim - len(grid) :], MODES[circular]
    return [ExtendedAxis(n, n, t, b, n, mode) for n, t, b in zip(grid, taps, before, strict=True)]


@st.composite
def axes_of_correlations(draw: st.DrawFn) -> list[ExtendedAxis]:
    """Whole grids and parts of them, which lie anywhere."""
    ndim = draw(st.integers(1, 3))
    longest, widest = (5, 7) if ndim < 3 else (3, 4)
    axes = []
    for _ in range(ndim):
        n, taps = draw(st.integers(1, longest)), draw(st.integers(1, widest))
        axis = ExtendedAxis(n, n, taps, draw(st.integers(0, taps - 1)), n, draw(modes))
        if draw(st.booleans()):
            starts = [draw(st.integers(0, n - 1)) for _ in range(2)]
            axis = axis.cut(*(slice(start, draw(st.integers(start + 1, n))) for start in starts))
        axes.append(axis)
    return axes


modes = st.sampled_from(MODES)


@given(
    axes=st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(3, 6)), min_size=1, max_size=3
    ),
    is_real=st.booleans(),
)
def test_a_spectrum_is_laid_out_like_the_spectra_that_it_multiplies(
    axes: list[tuple[int, int, int]], is_real: bool
) -> None:
    taps, shifts, lengths = zip(*axes, strict=True)
    dtype = torch.float64 if is_real else torch.complex128
    weight, placed = torch.randn(2, *taps, dtype=dtype), torch.zeros(2, *lengths, dtype=dtype)
    for j in product(*map(range, taps)):
        at = [(b - k) % n for k, b, n in zip(j, shifts, lengths, strict=True)]
        placed[batch(at)] += weight[batch(j)]
    along = [*range(1, placed.ndim)]
    expected = (torch.fft.rfftn if is_real else torch.fft.fftn)(placed, dim=along)
    spectrum = _correlate._spectrum(weight, shifts, lengths, is_real)
    torch.testing.assert_close(spectrum, expected)
    assert spectrum.is_contiguous()


@st.composite
def correlations(draw: st.DrawFn) -> tuple[Tensor, Tensor, list[ExtendedAxis], bool]:
    axes, is_back = draw(axes_of_correlations()), draw(st.booleans())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    kinds = [draw(st.sampled_from([torch.float64, torch.complex128])) for _ in range(2)]
    grid, taps = [axis.lengths[is_back] for axis in axes], [axis.taps for axis in axes]
    x = torch.randn(2, *grid, dtype=kinds[0], generator=generator)
    if draw(st.booleans()):  # in another order of the memory
        x = x.movedim(0, -1).contiguous().movedim(-1, 0)
    n_kernels = draw(st.integers(1, 2))
    return x, torch.randn(n_kernels, *taps, dtype=kinds[1], generator=generator), axes, is_back


@pytest.mark.parametrize("method", ["direct", "fft"])
@given(
    drawn=correlations(),
    is_learned=st.booleans(),
    nbytes=st.sampled_from([1, 64, 2**22]),
    smallest=st.sampled_from([0, 2**13]),
)
def test_a_correlation_is_the_sum_of_its_products(
    method: str,
    drawn: tuple[Tensor, Tensor, list[ExtendedAxis], bool],
    is_learned: bool,
    nbytes: int,
    smallest: int,
) -> None:
    x, weight, axes, is_back = drawn
    along = tuple(range(1, weight.ndim))
    taps = (weight.flip(along) if is_back else weight).requires_grad_(is_learned)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_correlate, "_PART", nbytes)
        patch.setattr(_correlate, "_SMALLEST_SUM", smallest)
        result = correlated(x, taps, axes, method, is_back=is_back).detach()
    expected = by_loops(x, weight.expand(2, *weight.shape[1:]), axes, is_back)
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result, expected.detach())


def test_strides_of_axes_of_length_one_do_not_reach_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    def spy(planes: Tensor, *others: Any, **options: Any) -> Tensor:
        seen.append(planes.stride())
        return functional.conv1d(planes, *others, **options)

    monkeypatch.setattr(_correlate, "_CONVOLUTIONS", (spy,))
    x, weight = torch.ones(1, 2).T, torch.ones(3)
    assert x.stride() == (1, 2)
    correlated(x, weight, whole([1], weight, [1], False))
    assert seen == [(2, 1, 1)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_a_correlation_along_the_first_axis_keeps_the_order_of_the_memory(
    dtype: torch.dtype,
) -> None:
    x, weight = torch.randn(64, 16, 8, dtype=dtype).movedim(0, -1), torch.randn(3)
    y = correlated(x, weight, whole([64], weight, [1], False))
    assert y.stride() == x.stride()
    axes = whole([64], weight.double(), [1], False)
    expected = correlated(x.to(torch.complex128), weight.double(), axes)
    torch.testing.assert_close(y, expected.to(dtype) if dtype.is_complex else expected.real.float())


def test_the_way_is_chosen_by_the_bytes_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[str] = []
    for name in ("_direct", "_by_transform"):
        monkeypatch.setattr(
            _correlate, name, lambda x, *_, name=name: ways.append(name) or x  # type: ignore[func-returns-value] # a spy
        )  # fmt: skip
    grid = torch.zeros(64, 64)
    for x, weight in (
        (grid, torch.zeros(8, 8)),  # 256 bytes
        (grid, torch.zeros(8, 9)),
        (grid.double(), torch.zeros(8, 8)),
        (torch.zeros(8, 8), torch.zeros(8, 9)),  # a small grid
        (grid.half(), torch.zeros(20, 20).half()),  # for which there are no transforms
    ):
        correlated(x, weight, whole(x.shape, weight, [0, 0], False))
    assert ways == ["_direct", "_by_transform", "_by_transform", "_direct", "_direct"]


def test_single_precision_stays_single() -> None:
    x, weight = torch.randn(2, 9, 9), torch.randn(3, 3)
    axes = whole([9, 9], weight, [1, 1], True)
    for value in (x, x + 1j):
        for kernel in (weight, weight * 1j):
            dtype = torch.promote_types(value.dtype, kernel.dtype)
            for method in ("direct", "fft"):
                assert correlated(value, kernel, axes, method).dtype == dtype


def test_lengths_of_transforms_have_small_factors_only() -> None:
    assert [_correlate.fast_length(n) for n in (1, 7, 11, 13, 97, 257)] == [
        1, 8, 12, 15, 100, 270,
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["direct", "fft", "auto"])
def test_an_empty_batch_has_an_empty_correlation(method: str) -> None:
    weight = torch.ones(3, dtype=torch.complex128)
    y = correlated(torch.zeros(0, 2, 5), weight, [part(5, 4, 3, 1, 6)], method)
    assert (y.shape, y.dtype) == ((0, 2, 4), torch.complex128)


def part(n_input: int, n_output: int, taps: int, before: int, period: int | None) -> ExtendedAxis:
    """Return the axis of a grid with one period, or of a long one with zeros beyond its ends."""
    mode: Extension = "circular" if period else "zeros"
    return ExtendedAxis(n_input, n_output, taps, before, period or 1000, mode)


@pytest.mark.parametrize(
    ("axis", "length"),
    [
        (part(100, 10, 5, 2 - 40, None), 14),  # the output and its halo
        (part(10, 100, 5, 2 + 40, None), 14),  # what the input reaches
        (part(100, 10, 5, 2 - 40, 100), 14),
        (part(10, 100, 5, 2 + 40, 100), 14),
        (part(100, 10, 5, 2, 100), 14),  # over the end of a ring
        (part(100, 100, 5, 2, None), 102),
        (part(100, 100, 5, 2, 100), 100),
    ],
)
def test_a_transform_is_as_long_as_what_touches(
    axis: ExtendedAxis, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def spy(
        x: Tensor, weight: Tensor, shifts: Sequence[int], of_transform: Sequence[int]
    ) -> Tensor:
        lengths.extend(of_transform)
        return by_transform(x, weight, shifts, of_transform)

    by_transform = _correlate._by_transform
    monkeypatch.setattr(_correlate, "_by_transform", spy)
    correlated(torch.randn(axis.n_input), torch.randn(5), [axis], "fft")
    assert lengths == [_correlate.fast_length(length)]


def test_a_direct_product_is_of_what_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def spy(x: Tensor, weight: Tensor, axes: Sequence[Axis]) -> Tensor:
        sizes.append((x.numel(), [axis.n_output for axis in axes]))
        return direct(x, weight, axes)

    direct = _correlate._direct
    monkeypatch.setattr(_correlate, "_direct", spy)
    weight = torch.randn(5)
    correlated(torch.randn(100), weight, [part(100, 10, 5, 2 - 40, None)])
    correlated(torch.randn(10), weight, [part(10, 100, 5, 2 + 40, None)])
    correlated(torch.randn(10), weight, [part(10, 100, 5, 2, 100)])  # and round the ring
    assert correlated(torch.randn(10), weight, [part(10, 90, 5, 102, None)]).tolist() == [0] * 90
    assert sizes == [(14, [10]), (10, [14]), (10, [12]), (2, [2])]


@pytest.mark.each_value
@pytest.mark.parametrize("kinds", list(product([torch.float64, torch.complex128], repeat=2)))
@pytest.mark.parametrize("method", ["direct", "fft"])
def test_every_mix_of_real_and_complex_compiles_to_one_graph(
    method: str, kinds: tuple[torch.dtype, torch.dtype]
) -> None:
    x, weight = torch.randn(2, 5, 4, dtype=kinds[0]), torch.randn(3, 2, dtype=kinds[1])
    torch._dynamo.reset()
    run = torch.compile(correlated, backend="aot_eager", fullgraph=True)
    for circular in (False, True):
        axes = whole([5, 4], weight, [1, 0], circular)
        expected = correlated(x, weight, axes, method)
        torch.testing.assert_close(run(x, weight, axes, method), expected)


@pytest.mark.parametrize("method", ["direct", "fft"])
@pytest.mark.parametrize("circular", [False, True])
def test_it_can_be_traced_with_symbols_for_sizes(method: str, circular: bool) -> None:
    def run(x: Tensor, weight: Tensor) -> Tensor:
        return correlated(x, weight, whole(x.shape, weight, [1, 0], circular), method)

    x, weight = torch.randn(5, 4), torch.randn(3, 2)
    graph = make_fx(run, tracing_mode="symbolic")(x, weight)
    torch.testing.assert_close(graph(x, weight), run(x, weight))


@pytest.mark.parametrize("is_real", [True, False])
def test_a_transform_of_a_weight_can_be_traced_without_writes(is_real: bool) -> None:
    weight = torch.randn(3, 3, dtype=torch.float64 if is_real else torch.complex128)
    x, axes = torch.randn(4, 4, dtype=torch.float64), whole([4, 4], weight, [1, 1], circular=True)

    def filtered(x: Tensor) -> Tensor:
        return correlated(x, weight, axes, "fft")

    torch.testing.assert_close(torch.func.functionalize(filtered)(x), filtered(x))
