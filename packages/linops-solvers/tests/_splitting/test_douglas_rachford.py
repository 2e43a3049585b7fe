import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import Dense
from linops_solvers import (
    ProximalMap,
    Record,
    StopReason,
    box,
    douglas_rachford,
    fista,
    l1_ball,
    l2_squared,
    no_penalty,
    separable,
    simplex,
    soft_threshold,
)

seeds = st.integers(0, 2**16)


@given(seeds, st.floats(0.3, 3.0), st.floats(0.5, 1.9), st.booleans())
def test_it_finds_what_fista_finds(
    seed: int, step: float, relaxation: float, is_complex: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.complex128 if is_complex else torch.float64
    matrix = torch.randn(6, 4, dtype=dtype, generator=generator)
    y = torch.randn(6, dtype=dtype, generator=generator)

    def misfit(z: torch.Tensor, t: float) -> torch.Tensor:
        eye = torch.eye(4, dtype=dtype)
        inverse: torch.Tensor = torch.linalg.inv(matrix.mH @ matrix + eye / t)
        return inverse @ (matrix.mH @ y + z / t)

    record = Record()
    x = douglas_rachford(
        misfit,
        soft_threshold(0.3),
        torch.zeros(4, dtype=dtype),
        2000,
        1e-8,
        step=step,
        relaxation=relaxation,
        callback=record,
    )
    assert record.reason is StopReason.CONVERGED
    A = Dense.from_einstr(matrix, "MN,N->M")
    expected = fista(A, y, soft_threshold(0.3), max_num_iters=5000, tol=1e-11)
    torch.testing.assert_close(x, expected, rtol=1e-4, atol=1e-5)


@given(seeds)
def test_a_point_of_two_sets_is_in_both(seed: int) -> None:
    z = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    x = douglas_rachford(box(0, 0.4), simplex(), z, 1000, 1e-9)
    assert float(x.min()) >= 0 and float(x.max()) <= 0.4
    assert float(x.sum()) == pytest.approx(1.0, abs=1e-6)


def test_the_result_is_new_and_of_the_dtype_of_the_start() -> None:
    z = torch.tensor([2.0, 1.0], dtype=torch.float16)
    near = l2_squared(1.0, center=torch.tensor([2.0, 1.0]))
    x = douglas_rachford(l1_ball(1.0), near, z, tol=1e-2)
    torch.testing.assert_close(x.float(), torch.tensor([1.0, 0.0]), rtol=0.02, atol=0.02)
    assert x.dtype == torch.float16 and z.tolist() == [2.0, 1.0]
    assert torch.equal(douglas_rachford(box(), near, z, 0), z)


def test_a_relaxation_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match=r"douglas_rachford: relaxation must be below 2, got 2"):
        douglas_rachford(box(), box(), torch.ones(1), relaxation=2.0)
    with pytest.raises(ValueError, match=r"what proximal_g returns must have the shape"):
        douglas_rachford(box(), lambda z, t: z[:1], torch.ones(2))


def test_half_precision_does_not_end_slow_steps() -> None:
    g, record = l2_squared(torch.tensor([0.02, 0.1]), 3.0), Record()
    zeros = torch.zeros(2, dtype=torch.float16)
    x = douglas_rachford(g, no_penalty(), zeros, 2000, callback=record)
    assert record.reason is StopReason.ROUNDING and 2.9 < float(x.min()) <= 3


@pytest.mark.parametrize("is_known", [False, True])
def test_watching_applies_no_map_again(is_known: bool) -> None:
    near, sparse = l2_squared(1.0, center=torch.tensor([2.0, 1.0])), soft_threshold(0.3)

    def solved(watching: Record | None) -> tuple[torch.Tensor, list[int]]:
        calls = [0, 0]

        def counted(at: int, inside: ProximalMap) -> ProximalMap:
            def apply(z: torch.Tensor, t: float) -> torch.Tensor:
                calls[at] += 1
                return inside(z, t)

            return separable(apply, inside.value if is_known else None)

        maps = counted(0, near), counted(1, sparse)
        return douglas_rachford(*maps, torch.zeros(2), 20, 0.0, callback=watching), calls

    record = Record()
    (x, calls), (watched, calls_watched) = solved(None), solved(record)
    assert torch.equal(x, watched)
    assert ("objective" in record.values) is is_known
    # The objective after the last step needs the w of a step that is not done.
    assert calls_watched == [calls[0], calls[1] + is_known]
