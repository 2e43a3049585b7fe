"""The vectors that solvers keep, and those that their steps write into."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from linops_solvers import (
    admm,
    conjugate_gradients,
    douglas_rachford,
    fista,
    gmres,
    huber,
    irls,
    l2_squared,
    mlem,
    operator_norm,
    osem,
    pdhg,
    proximal_gradient,
    soft_threshold,
    svd,
)
from linops_solvers._shared._space import Space, norms_of

N = 50
WEIGHT = torch.linspace(1, 30, N, dtype=torch.float64)

Map = Callable[..., Tensor]
Solve = Callable[..., Tensor]


class NewVectors(TorchDispatchMode):
    """Counts tensors of the size of a vector that lie in memory of their own."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types here
        self.count = 0
        self.counts = True

    def __torch_dispatch__(
        self,
        function: Any,
        _: Any,
        args: tuple[Any, ...] = (),
        kwargs: Any = None,
    ) -> object:
        result = function(*args, **(kwargs or {}))
        if self.counts:
            given = {storage_of(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
            tensors = [x for x in tree_leaves(result) if isinstance(x, Tensor) and x.numel() >= N]
            self.count += sum(storage_of(x) not in given for x in tensors)
        return result

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Count none of what is done within."""
        self.counts = False
        yield
        self.counts = True


def storage_of(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def products(x: Tensor) -> Tensor:
    return WEIGHT * x


def smaller(z: Tensor, t: float) -> Tensor:
    return z / (1 + t)


def itself(z: Tensor, t: float) -> Tensor:
    return z


def by_cg(A: Map, y: Tensor, steps: int, preconditioned: bool = False) -> Tensor:
    other = A if preconditioned else None
    return conjugate_gradients(A, y, None, steps, 1e-14, 0, preconditioner=other)


def by_gmres(A: Map, y: Tensor, steps: int) -> Tensor:
    return gmres(A, y, max_num_iters=steps, tol=0)


def by_fista(A: Map, y: Tensor, steps: int, g: Map = smaller) -> Tensor:
    return fista(A, y, g, None, steps, 0, adjoint=A, step=1e-3)


def by_proximal_gradient(A: Map, y: Tensor, steps: int, g: Map = smaller) -> Tensor:
    return proximal_gradient(A, y, g, None, steps, 0, adjoint=A, step=1e-3)


def by_pdhg(A: Map, y: Tensor, steps: int, g: Map = smaller) -> Tensor:
    return pdhg(A, g, g, y, steps, eps_rel=0, adjoint=A)


def by_admm(A: Map, y: Tensor, steps: int, g: Map = smaller, is_rho_fixed: bool = False) -> Tensor:
    return admm(A, y, g, max_num_iters=steps, is_rho_fixed=is_rho_fixed, eps_rel=0, adjoint=A)


def by_dr(_: Map, x0: Tensor, steps: int, g: Map) -> Tensor:
    return douglas_rachford(g, g, x0, steps, 0)


def by_mlem(A: Map, y: Tensor, steps: int) -> Tensor:
    return mlem(A, y, None, steps, adjoint=A)


def by_osem(A: Map, y: Tensor, steps: int) -> Tensor:
    return osem([A, A], [y, y], None, steps, adjoint=[A, A])


def new_vectors(solve: Solve, y: Tensor, steps: int) -> int:
    """Return how many vectors are made, by the operator none."""
    with NewVectors() as result:

        def A(x: Tensor) -> Tensor:
            with result.elsewhere():
                return products(x)

        solve(A, y, steps)
    count: int = result.count
    return count


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("solve", [by_cg, partial(by_cg, preconditioned=True), by_gmres])
def test_a_step_makes_no_vector(solve: Solve, dtype: torch.dtype) -> None:
    y = torch.ones(N, dtype=dtype)
    # torch copies a short complex vector to conjugate it, in both products of a step of gmres.
    copies = 2 if solve is by_gmres and dtype.is_complex else 0
    assert new_vectors(solve, y, 15) - new_vectors(solve, y, 5) == 10 * copies


class LiveVectors(NewVectors):
    """Counts the memories of the size of a vector that exist at a time, and the most of them."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, StorageWeakRef] = {}
        self.most = 0

    def __torch_dispatch__(self, *given: Any) -> object:
        result = super().__torch_dispatch__(*given)
        for x in tree_leaves(result):
            if isinstance(x, Tensor) and x.numel() >= N:
                self.live[storage_of(x)] = StorageWeakRef(x.untyped_storage())
        self.live = {key: one for key, one in self.live.items() if not one.expired()}
        self.most = max(self.most, len(self.live))
        return result


@pytest.mark.parametrize("g", [smaller, soft_threshold(0.1)])
@pytest.mark.parametrize(
    ("solve", "most"),
    [(by_fista, 10), (by_proximal_gradient, 9), (by_pdhg, 9), (by_admm, 9), (by_dr, 5)],
)
def test_a_solver_with_a_map_keeps_few_vectors(solve: Solve, most: int, g: Map) -> None:
    with LiveVectors() as result:
        solve(products, torch.ones(N, dtype=torch.float64), 5, g)
    assert result.most <= 1 + most  # with y


@pytest.mark.parametrize(("solve", "most"), [(by_cg, 4), (by_mlem, 6), (by_osem, 9)])
def test_a_solver_keeps_few_vectors(solve: Solve, most: int) -> None:
    with LiveVectors() as result:
        solve(products, torch.linspace(1, 9, N, dtype=torch.float64), 5)
    assert result.most <= 1 + most  # with y


def test_the_norm_of_zeros_makes_no_vector() -> None:
    zeros = torch.zeros(N, dtype=torch.float64)
    with NewVectors() as new:
        assert norms_of("test", (Space(), [zeros])) == [0.0]
    assert not new.count


@pytest.mark.parametrize("solve", [by_fista, by_proximal_gradient, by_pdhg, by_admm])
def test_a_map_may_return_what_it_is_given(solve: Callable[..., Tensor]) -> None:
    def copied(z: Tensor, t: float) -> Tensor:
        return z.clone()

    y = torch.linspace(-1, 1, N, dtype=torch.float64)
    for steps in (1, 2, 7):
        expected = solve(products, y, steps, copied)
        assert torch.equal(solve(products, y, steps, itself), expected)


def written(z: Tensor, t: float) -> Tensor:
    """Write into the argument, and return it."""
    return z.clamp_(min=0)


def through_numpy(z: Tensor, t: float) -> Tensor:
    """Write into the memory of the argument, and return it as another storage."""
    array = z.numpy()
    array[array < 0] = 0
    return torch.from_numpy(array)


@pytest.mark.parametrize("g", [written, through_numpy])
@pytest.mark.parametrize("solve", [by_fista, by_proximal_gradient, by_pdhg, by_admm])
def test_a_map_may_write_into_what_it_is_given(solve: Callable[..., Tensor], g: Map) -> None:
    def positive(z: Tensor, t: float) -> Tensor:
        return z.clamp(min=0)

    y = torch.linspace(-1, 1, N, dtype=torch.float64)
    for steps in (1, 2, 7):
        expected = solve(products, y, steps, positive)
        assert torch.equal(solve(products, y, steps, g), expected)


@pytest.mark.parametrize("solve", [by_fista, by_proximal_gradient, by_pdhg, by_admm])
def test_a_map_may_keep_what_it_is_given(solve: Callable[..., Tensor]) -> None:
    kept: list[tuple[Tensor, Tensor]] = []

    def keeping(z: Tensor, t: float) -> Tensor:
        kept.append((z, z.clone()))
        return smaller(z, t)

    solve(products, torch.linspace(-1, 1, N, dtype=torch.float64), 7, keeping)
    assert all(torch.equal(z, copy) for z, copy in kept)


@pytest.mark.parametrize("solve", [by_fista, by_proximal_gradient, by_pdhg, by_admm])
@pytest.mark.parametrize("g", [smaller, huber(1.0, 0.5)])
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_derivatives_by_transforms_are_those_of_autograd(
    solve: Callable[..., Tensor], g: Map
) -> None:
    y = torch.linspace(-1, 2, N, dtype=torch.float64)

    def squared_norm(y: Tensor) -> Tensor:
        return solve(products, y, 5, g).square().sum()

    wanted = torch.autograd.functional.jacobian(squared_norm, y)
    torch.testing.assert_close(torch.func.grad(squared_norm)(y), wanted)
    along = torch.func.jvp(squared_norm, (y,), (torch.ones_like(y),))[1]
    torch.testing.assert_close(along, wanted.sum())


class IntoOneBuffer:
    """A function that returns the same memory in each call."""

    def __init__(self, function: Map, through_numpy: bool) -> None:
        self.function, self.through_numpy = function, through_numpy
        self.buffer = torch.empty(N, dtype=torch.float64)

    def __call__(self, *arguments: Any) -> Tensor:
        if self.through_numpy:
            self.buffer.numpy()[:] = self.function(*arguments).numpy()
            return torch.from_numpy(self.buffer.numpy())
        return self.buffer.copy_(self.function(*arguments))


@pytest.mark.parametrize("through_numpy", [False, True])
@pytest.mark.parametrize("solve", [by_fista, by_proximal_gradient, by_pdhg, by_admm])
def test_an_operator_that_returns_one_buffer_is_refused(
    solve: Callable[..., Tensor], through_numpy: bool
) -> None:
    A = IntoOneBuffer(products, through_numpy)
    with pytest.raises(ValueError, match=r"must return new memory in each call, got (the|an)"):
        solve(A, torch.ones(N, dtype=torch.float64), 7)


@pytest.mark.parametrize("through_numpy", [False, True])
@pytest.mark.parametrize("solve", [by_fista, by_proximal_gradient, by_pdhg])
def test_a_map_that_returns_one_buffer_is_refused(
    solve: Callable[..., Tensor], through_numpy: bool
) -> None:
    g, y = IntoOneBuffer(smaller, through_numpy), torch.ones(N, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"the proximal map.* must return new memory"):
        solve(products, y, 7, g)


@pytest.mark.parametrize("through_numpy", [False, True])
def test_irls_takes_an_adjoint_that_returns_one_buffer(through_numpy: bool) -> None:
    y = torch.ones(N, dtype=torch.float64)
    result = irls(products, y, adjoint=IntoOneBuffer(products, through_numpy))
    torch.testing.assert_close(result, irls(products, y, adjoint=products))


@pytest.mark.parametrize("through_numpy", [False, True])
def test_svd_takes_operators_that_return_one_buffer(through_numpy: bool) -> None:
    A, y = IntoOneBuffer(products, through_numpy), torch.ones(N, dtype=torch.float64)
    result = svd(A, 3, adjoint=A, like=y)
    torch.testing.assert_close(result.S, WEIGHT.flip(0)[:3])


@pytest.mark.parametrize("through_numpy", [False, True])
def test_maps_of_douglas_rachford_with_one_buffer_are_refused(through_numpy: bool) -> None:
    g = IntoOneBuffer(smaller, through_numpy)
    with pytest.raises(ValueError, match=r"douglas_rachford: a proximal map must return new"):
        douglas_rachford(g, g, torch.ones(N, dtype=torch.float64))


def test_maps_of_douglas_rachford_may_write_into_their_arguments() -> None:
    shrink, near = soft_threshold(0.3), l2_squared(1.0, torch.linspace(-1, 1, N).double())

    def shrunk(z: Tensor, t: float) -> Tensor:
        return z.copy_(shrink(z, t))

    x0 = torch.zeros(N, dtype=torch.float64)
    expected = douglas_rachford(shrink, near, x0, 9)
    assert torch.equal(douglas_rachford(shrunk, near, x0, 9), expected)


@pytest.mark.parametrize("solve", [by_fista, by_proximal_gradient])
def test_a_map_may_return_one_constant(solve: Callable[..., Tensor]) -> None:
    """The proximal map of the indicator of a point."""
    y, point = torch.ones(N, dtype=torch.float64), torch.arange(N, dtype=torch.float64)
    assert torch.equal(solve(products, y, 7, lambda z, t: point), point)


@pytest.mark.parametrize("solve", [by_cg, by_fista, by_proximal_gradient, by_pdhg, by_admm])
def test_results_lie_in_memory_of_their_own(solve: Callable[..., Tensor]) -> None:
    y, maps = torch.ones(N, dtype=torch.float64), [] if solve is by_cg else [itself]
    first = solve(products, y, 5, *maps)
    kept = first.clone()
    second = solve(products, y, 7, *maps)
    assert torch.equal(first, kept)
    assert len({storage_of(x) for x in (first, second, y, WEIGHT)}) == 4


@pytest.mark.parametrize(
    "solve",
    [
        lambda A, y: conjugate_gradients(A, y, preconditioner=A, max_num_iters=4, gtol=0, ltol=0),
        lambda A, y: operator_norm(A, y, 4, 0, adjoint=A),
    ],
)
def test_no_earlier_result_is_kept_beside_the_last_one(solve: Callable[..., object]) -> None:
    results: list[weakref.ref[Tensor]] = []
    counts = []

    def A(x: Tensor) -> Tensor:
        result = WEIGHT * x
        results.append(weakref.ref(result))
        counts.append(sum(one() is not None for one in results))
        return result

    solve(A, torch.ones(N, dtype=torch.float64))
    assert len(counts) > 7 and max(counts[4:]) <= 2
