"""Both ways to correlate, against explicit loops and against each other."""

from collections.abc import Sequence
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import _correlate
from linops_core._correlate import correlated


def by_loops(x: Tensor, weight: Tensor, before: list[int], circular: bool) -> Tensor:
    grid = x.shape[1:]
    y = torch.zeros(x.shape, dtype=torch.promote_types(x.dtype, weight.dtype))
    for n in product(*map(range, grid)):
        for j in product(*map(range, weight.shape[1:])):
            at = [a + b - c for a, b, c in zip(n, j, before, strict=True)]
            if circular:
                at = [a % size for a, size in zip(at, grid, strict=True)]
            if all(0 <= a < size for a, size in zip(at, grid, strict=True)):
                y[batch(n)] += weight[batch(j)] * x[batch(at)]
    return y


def batch(at: Sequence[int]) -> tuple[slice | int, ...]:
    return (slice(None), *at)


@st.composite
def correlations(draw: st.DrawFn) -> tuple[Tensor, Tensor, list[int]]:
    ndim = draw(st.integers(1, 3))
    grid = [draw(st.integers(1, 5 if ndim < 3 else 3)) for _ in range(ndim)]
    taps = [draw(st.integers(1, 7 if ndim < 3 else 4)) for _ in range(ndim)]
    before = [draw(st.integers(0, size - 1)) for size in taps]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    kinds = [draw(st.sampled_from([torch.float64, torch.complex128])) for _ in range(2)]
    x = torch.randn(2, *grid, dtype=kinds[0], generator=generator)
    n_kernels = draw(st.integers(1, 2))
    return x, torch.randn(n_kernels, *taps, dtype=kinds[1], generator=generator), before


@pytest.mark.parametrize("method", ["direct", "fft"])
@given(drawn=correlations(), circular=st.booleans())
def test_a_correlation_is_the_sum_of_its_products(
    method: str, drawn: tuple[Tensor, Tensor, list[int]], circular: bool
) -> None:
    x, weight, before = drawn
    found = correlated(x, weight, before, circular, method)
    expected = by_loops(x, weight.expand(2, *weight.shape[1:]), before, circular)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected)


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
        correlated(x, weight, [0, 0], False)
    assert ways == ["_direct", "_by_transform", "_by_transform", "_direct", "_direct"]


def test_single_precision_stays_single() -> None:
    x, weight = torch.randn(2, 9, 9), torch.randn(3, 3)
    for value in (x, x + 1j):
        for kernel in (weight, weight * 1j):
            dtype = torch.promote_types(value.dtype, kernel.dtype)
            for method in ("direct", "fft"):
                assert correlated(value, kernel, [1, 1], True, method).dtype == dtype


def test_lengths_of_transforms_have_small_factors_only() -> None:
    assert [_correlate._fast_length(n) for n in (1, 7, 11, 13, 97, 257)] == [
        1, 8, 12, 15, 100, 270,
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["direct", "fft", "auto"])
def test_an_empty_batch_has_an_empty_correlation(method: str) -> None:
    weight = torch.ones(3, dtype=torch.complex128)
    y = correlated(torch.zeros(0, 2, 5), weight, [1], True, method)
    assert (y.shape, y.dtype) == ((0, 2, 5), torch.complex128)


@pytest.mark.parametrize("kinds", list(product([torch.float64, torch.complex128], repeat=2)))
@pytest.mark.parametrize("method", ["direct", "fft"])
def test_every_mix_of_real_and_complex_compiles_to_one_graph(
    method: str, kinds: tuple[torch.dtype, torch.dtype]
) -> None:
    x, weight = torch.randn(2, 5, 4, dtype=kinds[0]), torch.randn(3, 2, dtype=kinds[1])
    torch._dynamo.reset()
    run = torch.compile(correlated, backend="aot_eager", fullgraph=True)
    for circular in (False, True):
        expected = correlated(x, weight, [1, 0], circular, method)
        torch.testing.assert_close(run(x, weight, [1, 0], circular, method), expected)
