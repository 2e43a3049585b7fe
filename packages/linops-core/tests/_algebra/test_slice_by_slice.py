"""Chains that work slice by slice compute what the whole computes, in less memory."""

import gc
import weakref
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from linops_core import FFT, Dense, Diagonal, NamedLinop, Sampling
from linops_core._algebra import _slice_by_slice
from linops_core.questions import gains_by_slices
from linops_core.testing.strategies import Known, check, trees
from nameddim import NamedDimension, NamedShape

WHOLE = _slice_by_slice.CACHE


def n_parts(linop: NamedLinop) -> int:
    """Return of how many slices the last call was made."""
    _, result = _slice_by_slice.SLICES.get(linop) or (None, None)
    return sum(map(len, result.rows)) if result is not None else 1


def sense(coils: int, slices: int, side: int, centered: bool = False) -> NamedLinop:
    generator = torch.Generator().manual_seed(coils)
    shape = (coils, slices, side, side)
    maps = torch.randn(shape, dtype=torch.complex64, generator=generator)
    mask = torch.rand(side, side, generator=generator) < 0.5
    S = Dense(maps, ("C", "Nz", "Nx", "Ny"), ("Nz", "Nx", "Ny"), ("C", "Nz", "Nx", "Ny"))
    return Sampling.from_mask(mask) @ FFT(2, centered=centered) @ S


def coils_of(A: NamedLinop) -> Dense:
    return next(linop for linop in A.flatten() if isinstance(linop, Dense))


@pytest.fixture(autouse=True)
def cache_of_the_library() -> Iterator[None]:
    yield
    _slice_by_slice.CACHE = WHOLE


def with_cache(nbytes: int, linop: NamedLinop, x: Tensor) -> tuple[Tensor, int]:
    """Return A x where so much memory fits the cache, and the number of slices.

    The second call checks less and writes in place. It must return the same and change nothing.
    """
    _slice_by_slice.SLICES.forget(linop)
    _slice_by_slice.CACHE = nbytes // torch.get_num_threads()
    read = [x, *linop.buffers()]
    before = [each.clone() for each in read]
    y = linop(x)
    first = y.clone()
    assert torch.equal(linop(x), first)
    assert torch.equal(y, first)
    assert all(map(torch.equal, read, before))
    _slice_by_slice.CACHE = WHOLE
    return y, n_parts(linop)


@given(
    lengths=st.tuples(*[st.integers(1, 4)] * 3),
    nbytes=st.integers(1, 600),
    centered=st.booleans(),
    side=st.sampled_from(["A", "H", "N", "HN"]),
)
@example(lengths=(2, 2, 2), nbytes=10**6, centered=False, side="H")
def test_slices_make_up_the_whole(
    lengths: tuple[int, int, int], nbytes: int, centered: bool, side: str
) -> None:
    A = sense(*lengths, centered)
    linop = {"A": A, "H": A.H, "N": A.N, "HN": A.H.N}[side]
    x = A(torch.randn(lengths[1], lengths[2], lengths[2], dtype=torch.complex64))
    x = x if "H" in side else A.H(x)
    expected = linop(x)
    assert n_parts(linop) == 1
    y, n_slices = with_cache(nbytes, linop, x)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
    n_bytes = 8 * prod(lengths) * lengths[2]
    n_most = min(n_bytes / nbytes, lengths[0] * lengths[1])
    assert n_slices >= (n_most if side in ("A", "N") else 1)


@given(trees(3))
def test_any_composition_is_its_matrix_slice_by_slice(known: Known) -> None:
    _slice_by_slice.CACHE = 1
    check(known)


@pytest.mark.parametrize("run", [(), (2,), (2, 3)])
def test_dimensions_behind_an_ellipsis_stay_whole(run: tuple[int, ...]) -> None:
    maps = torch.randn(3, 4, dtype=torch.complex64)
    names = ("...", "C", "Nx")
    A = FFT(1, ("...", "C")) @ Dense(maps, ("C", "Nx"), ("...", "Nx"), names)
    x = torch.randn(*run, 4, dtype=torch.complex64)
    for linop, vector in ((A, x), (A.H, A(x)), (A.N, x)):
        expected = linop(vector)
        y, n_slices = with_cache(1, linop, vector)
        torch.testing.assert_close(y, expected)
        assert n_slices == 3 * (4 if linop is A.N else 1)  # in which no transform is left


def test_new_weights_are_read() -> None:
    A = sense(4, 1, 4)
    x = torch.randn(1, 4, 4, dtype=torch.complex64)
    first, n_slices = with_cache(200, A.N, x)
    assert n_slices == 4
    _slice_by_slice.CACHE = 1
    coils_of(A).weight.mul_(2)
    torch.testing.assert_close(A.N(x), 4 * first)
    weights = {name: 3 * w for name, w in A.N.named_buffers() if w.is_complex()}
    torch.testing.assert_close(torch.func.functional_call(A.N, weights, x), 36 * first)
    torch.testing.assert_close(A.N(x), 4 * first)


@pytest.mark.parametrize("n_coils", [1, 3, 4, 5, 9])
def test_weights_of_another_length_are_cut_anew(n_coils: int) -> None:
    A, other = sense(4, 1, 4), sense(4, 1, 4)
    maps = torch.randn(n_coils, 1, 4, 4, dtype=torch.complex64)
    coils_of(other).weight = maps
    x = torch.randn(1, 4, 4, dtype=torch.complex64)
    expected = other(x), other.N(x)
    normal, first = A.N, A(x)
    _, n_slices = with_cache(200, A, x)
    assert n_slices == 4
    with_cache(200, normal, x)
    _slice_by_slice.CACHE = 200 // torch.get_num_threads()
    (name,) = [name for name, w in A.named_buffers() if w.is_complex()]
    torch.testing.assert_close(torch.func.functional_call(A, {name: maps}, (x,)), expected[0])
    torch.testing.assert_close(A(x), first)
    coils_of(A).weight = maps
    torch.testing.assert_close(A(x), expected[0])
    torch.testing.assert_close(normal(x), expected[1])
    assert n_parts(normal) == n_coils


def test_a_weight_that_becomes_a_parameter_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    A, x = sense(4, 1, 4), torch.randn(1, 4, 4, dtype=torch.complex64)
    expected, n_slices = with_cache(200, A.N, x)
    assert n_slices == 4
    coils = coils_of(A)
    coils.weight = torch.nn.Parameter(coils.weight)
    monkeypatch.delattr(_slice_by_slice.SlicedChain, "run")
    y = A.N(x)
    torch.testing.assert_close(y, expected)
    (gradient,) = torch.autograd.grad(y.abs().square().sum(), coils.weight)
    assert gradient.abs().sum() > 0


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_who_follows_it_gets_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    A = sense(4, 1, 4)
    x = torch.randn(1, 4, 4, dtype=torch.complex64)
    expected, n_slices = with_cache(1, A.N, x)
    assert n_slices == 4
    _slice_by_slice.CACHE = 1
    N = sense(4, 1, 4).N
    torch.testing.assert_close(N(x), expected)
    twice = torch.func.vmap(N, out_dims=0)
    with monkeypatch.context() as patch:
        patch.delattr(_slice_by_slice.SlicedChain, "run")
        followed = x.clone().requires_grad_()
        loss = N(followed).abs().square().sum()
        torch.testing.assert_close(torch.func.jvp(N, (x,), (x,))[1], expected)
        torch.testing.assert_close(twice(torch.stack([x, 2 * x]))[1], 2 * expected)
        seen: list[Any] = []
        hook = N.flatten()[1].register_forward_hook(lambda module, args, y: seen.append(y.shape))
        torch.testing.assert_close(N(x), expected)
        assert seen == [(4, 1, 4, 4)]
        hook.remove()
        maps = N.flatten()[0].weight
        assert isinstance(maps, Tensor)
        maps.requires_grad_()
        torch.testing.assert_close(N(x).detach(), expected)
    (gradient,) = torch.autograd.grad(loss, followed)
    torch.testing.assert_close(gradient, 2 * N(expected).detach())
    with torch.no_grad(), pytest.raises(AttributeError), monkeypatch.context() as patch:
        patch.delattr(_slice_by_slice.SlicedChain, "run")
        N(x)  # which nobody follows


@given(
    n=st.integers(1, 4),
    is_real=st.booleans(),
    order=st.permutations(["mask", "transform", "mask"]),
    is_normal=st.booleans(),
)
@example(n=3, is_real=True, order=["mask", "mask", "transform"], is_normal=True)
def test_masks_write_in_place_and_nowhere_else(
    n: int, is_real: bool, order: list[str], is_normal: bool
) -> None:
    weight = torch.randn(n, n, dtype=torch.float32 if is_real else torch.complex64)
    mask = Diagonal(weight, ("C", "Nx", "Ny"), weight_shape=("Nx", "Ny"))
    kinds = {"mask": mask, "transform": FFT(dims=("Nx", "Ny"), shape=("C", "Nx", "Ny"))}
    linops = [kinds[kind].N if is_normal and kind == "mask" else kinds[kind] for kind in order]
    A = linops[2] @ linops[1] @ linops[0]
    x = torch.randn(3, n, n, dtype=torch.complex64)
    expected = linops[2](linops[1](linops[0](x)))
    y, _ = with_cache(1, A, x)
    torch.testing.assert_close(y, expected)


class OwnMask(Diagonal):
    """A mask with its own closed form."""

    @staticmethod
    def normal_fn(linop: Diagonal, x: Tensor, /) -> Tensor:
        return linop.weight.abs().square() * x


class OwnMaps(Dense):
    """Maps of coils with a closed form."""

    @staticmethod
    def normal_fn(linop: Dense, x: Tensor, /) -> Tensor:
        return linop.weight.abs().square().sum(0) * x


@pytest.mark.parametrize(
    "linop",
    [
        OwnMask(torch.randn(4, 4), ("Nx", "Ny")),
        OwnMaps(torch.randn(3, 4, 4), ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny")),
    ],
    ids=["mask", "maps"],
)
def test_a_closed_form_of_a_subclass_is_called(linop: NamedLinop) -> None:
    F = FFT(dims=("Nx", "Ny"), shape=("Nx", "Ny"))
    x = torch.randn(4, 4, dtype=torch.complex64)
    y, _ = with_cache(1, linop.N @ F, x)
    torch.testing.assert_close(y, linop.H(linop(F(x))))


class Remembers(FFT):
    """A transform that keeps what it returned."""

    returned: ClassVar[list[Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        self.returned.append(y)
        return y


def test_an_operator_with_its_own_forward_is_called_and_keeps_what_it_returned() -> None:
    Remembers.returned.clear()
    F = Remembers(dims=("Nx", "Ny"), shape=("Nx", "Ny"))
    D = Diagonal(torch.randn(4, 4), ("Nx", "Ny"))
    x = torch.randn(4, 4, dtype=torch.complex64)
    with_cache(1, D @ F, x)
    assert len(Remembers.returned) == 2
    for y in Remembers.returned:
        torch.testing.assert_close(y, torch.fft.fft2(x, norm="ortho"))


def test_an_operator_with_slices_is_freed_without_the_collector() -> None:
    A, x = sense(4, 1, 4), torch.randn(1, 4, 4, dtype=torch.complex64)
    with_cache(1, A, x)
    result = weakref.ref(A)
    gc.disable()
    try:
        del A
        assert result() is None
    finally:
        gc.enable()


class Largest(TorchDispatchMode):
    """Notes the most bytes of the storages that operations made and that are alive at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive: dict[int, tuple[Any, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        read = {x.untyped_storage()._cdata for x in tree_leaves(args) if isinstance(x, Tensor)}
        for storage in [result.untyped_storage()] if isinstance(result, Tensor) else []:
            if storage._cdata in read:
                continue  # a view
            handle = torch.multiprocessing.reductions.StorageWeakRef(storage)
            self.alive[storage._cdata] = handle, storage.nbytes()
        self.alive = {key: pair for key, pair in self.alive.items() if not pair[0].expired()}
        self.peak = max(self.peak, sum(nbytes for _, nbytes in self.alive.values()))
        return result


@pytest.mark.parametrize("centered", [False, True])
def test_a_normal_operator_of_eight_coils_needs_little_memory(centered: bool) -> None:
    N = sense(8, 1, 256, centered).N
    x = torch.randn(1, 256, 256, dtype=torch.complex64)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        N(x)  # counts of the samples are kept
        with Largest() as memory:
            N(x)
    finally:
        torch.set_num_threads(threads)
    assert n_parts(N) > 1
    assert memory.peak <= 2.5 * 2**20  # with the output


def test_matrices_and_small_tensors_are_not_cut() -> None:
    matrix = Dense(torch.randn(2000, 200), ("M", "N"), ("K", "N"), ("K", "M"))
    twice = Diagonal(torch.randn(2000), ("M",)) @ matrix
    twice(torch.randn(300, 200))
    small = sense(8, 1, 32)
    small.N(torch.randn(1, 32, 32, dtype=torch.complex64))
    assert n_parts(twice) == n_parts(small.N) == 1


class Own(NamedLinop):
    """An operator of a user, which returns its input and keeps the shapes that it has seen."""

    seen: ClassVar[list[tuple[int, ...]]] = []

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        Own.seen.append(tuple(x.shape))
        return x

    adj_fn = fn

    @staticmethod
    def split(linop: NamedLinop, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        return linop


class OwnInSlices(Own):
    """The same; its class says that it gains by slices."""


gains_by_slices.register(OwnInSlices)(lambda linop: True)


@pytest.mark.parametrize(("kind", "is_cut"), [(Own, False), (OwnInSlices, True)])
def test_an_operator_of_a_user_is_cut_if_its_class_says_so(kind: type[Own], is_cut: bool) -> None:
    W = Dense(torch.ones(3, 4, dtype=torch.complex64), ("C", "N"), ("N",), ("C", "N"))
    A = W.H @ kind(NamedShape(("C", "N"))) @ W
    x = torch.arange(4.0) + 1j
    expected = 3 * x
    Own.seen.clear()
    y, n_slices = with_cache(32, A, x)  # which checks that it writes into no input
    torch.testing.assert_close(y, expected)
    assert (n_slices > 1) == is_cut == ({*Own.seen} != {(3, 4)})
