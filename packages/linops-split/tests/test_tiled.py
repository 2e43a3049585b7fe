"""Operators that run tile by tile obey the laws of all operators, before and after they were used.

Shapes: C coils, M rows, N columns, K samples.
"""

import copy
import io
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from linops_core import (
    FFT,
    Chain,
    Concat,
    Convolution,
    Dense,
    Diagonal,
    FourierShift,
    Identity,
    NamedLinop,
    SimpleLinop,
    SliceableLinop,
    Stack,
)
from linops_core.testing import BaseNamedLinopTests
from linops_split import Part, Tiled, Tiles, batch_linop
from nameddim import ND, NamedShape

C, M, N = ND.infer(("C", "M", "N"))


def values(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def matrix(rows: int = 4, columns: int = 5) -> Dense:
    return Dense(nn.Parameter(values(rows, columns)), ("M", "N"))


def used(linop: NamedLinop) -> NamedLinop:
    """Return the operator after its first call, by which it has remembered what it can."""
    with torch.no_grad():
        linop.to_dense()
    return linop


class TestSense(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        maps = nn.Parameter(values(3, 2, 2))
        S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
        mask = Diagonal(values(2, 2, seed=1).real, ("...", "Kx", "Ky"))
        return used(batch_linop(mask @ FFT(2) @ S, {"C": 2}))


class TestConvolution(BaseNamedLinopTests):
    """Tiles of both dimensions: their outputs are joined along one and summed along the other."""

    def make_linop(self) -> NamedLinop:
        kernel = nn.Parameter(values(3))
        A = Convolution(kernel, (), ("N",), ("M",), method="direct", grid_size=[6])
        return used(batch_linop(A, {"M": 4, "N": 3}))


@pytest.mark.parametrize("cut", [{"M": 1}, {"N": 2}, {"L": 2, "N": 1}])
def test_tiles_take_further_dimensions_in_front_where_the_whole_does(cut: dict[str, int]) -> None:
    A = Dense(torch.rand(2, 3), ("M", "L")) @ Dense(torch.rand(3, 4), ("L", "N"))
    B, D = batch_linop(A, cut), Diagonal(torch.rand(5, 4), ("C", "N"))
    x = torch.rand(5, 4)
    for tiled, whole in ((B @ D, A @ D), (D @ B.H @ B, D @ A.H @ A), (B.N @ D, A.N @ D)):
        assert tiled.oshape == whole.oshape
        assert any(isinstance(part, Tiled) for part in tiled.modules())
        torch.testing.assert_close(tiled(x), whole(x))
    assert batch_linop(A, {"M": 1}).fitted_to((ND("L"), ND("N"))) is None  # a name used inside


def test_a_cut_that_makes_one_tile_leaves_the_operator_as_it_is() -> None:
    A = matrix()
    assert batch_linop(A, {"M": 4, "N": 100}) is A
    assert batch_linop(A, {}) is A


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32])
def test_integers_and_booleans_are_summed_in_int64(dtype: torch.dtype) -> None:
    D = Diagonal(torch.ones(4, dtype=torch.bool), ("N",))
    x = torch.full((4,), 100).to(dtype)
    for A in (D + D + D, Stack(D, D, D, odim_and_idx=("C", 0)).N):
        y = A(x)
        assert y.dtype == torch.int64
        for batched in (batch_linop(A, {dim: 1}) for dim in A.dims if A.size(dim)):
            assert torch.equal(batched(x), y) and batched(x).dtype == y.dtype
    # Each tile returns the dtype of x, and the sum of the tiles is wider.
    B, rows = Stack(D, D, D, odim_and_idx=("C", 0)).H, x.expand(3, -1)
    y = batch_linop(B, {"C": 1})(rows)
    assert y.dtype == torch.int64 and torch.equal(y, B(rows))


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_single(dtype: torch.dtype) -> None:
    weight = torch.ones(201, 2, dtype=dtype)
    weight[0, 0] = 2048  # where 1 more is lost in both dtypes
    A, x = Dense(weight, ("M", "N"), ("M", "N"), ("N",)), torch.ones(201, 2, dtype=dtype)
    B = batch_linop(A, {"M": 1})
    for y in (B(x), B(x.requires_grad_()), torch.func.jvp(B, (x,), (x,))[0]):
        assert y.dtype == dtype and torch.equal(y, A(x))
    shared = torch.ones(2, dtype=dtype, requires_grad=True)  # that all tiles read
    B = batch_linop(Dense(shared, ("N",), ("M", "N"), ("M", "N")), {"M": 1}, sizes={"M": 201})
    (gradient,) = torch.autograd.grad(B(weight), shared, torch.ones_like(weight))
    assert gradient.dtype == dtype and torch.equal(gradient, weight.sum(0))


def test_tiles_must_not_be_replaced() -> None:
    tiled = batch_linop(Diagonal(torch.rand(4), ("N",)), {"N": 1})
    tiled(torch.rand(4))
    assert isinstance(tiled, Tiled)
    with pytest.raises(RuntimeError, match="must not change once other operators were made"):
        tiled.set_submodule("3", Diagonal(torch.rand(1), ("N",)))


def test_the_tiles_of_an_endomorphism_make_one() -> None:
    A = Dense(torch.rand(4, 3, dtype=torch.complex128))
    normal, x = A.N, torch.rand(3, dtype=torch.complex128)
    batched = batch_linop(normal, {"N": 1})
    assert batched.is_endomorphism
    torch.testing.assert_close((batched + 0.1 * Identity())(x), normal(x) + 0.1 * x)
    torch.testing.assert_close((batched**2)(x), normal(normal(x)))


@pytest.mark.parametrize("operand", [None, 0, 1])
def test_a_hook_of_a_tile_among_many_is_called_from_then_on(operand: int | None) -> None:
    D = Diagonal(torch.rand(12), ("N",))
    A = D @ D
    tiled = batch_linop(A, {"N": 1})
    x = torch.rand(12)
    wanted = tiled(x)
    assert isinstance(tiled, Tiled)
    tile = tiled.linops[7]
    if operand is not None:
        assert isinstance(tile, Chain)
        tile = tile.linops[operand]
    calls = []
    handle = tile.register_forward_hook(lambda linop, args, y: calls.append(y))
    for count in (1, 2):
        torch.testing.assert_close(tiled(x), wanted)
        assert len(calls) == count
    handle.remove()
    torch.testing.assert_close(tiled(x), wanted)
    assert len(calls) == 2


def test_tiles_of_many_lengths_and_dtypes_make_the_output() -> None:
    """Tiles of length 1, then of length 2; real ones, then complex ones."""
    real, other = Diagonal(torch.rand(20), ("N",)), Diagonal(torch.rand(40) + 1j, ("N",))
    whole = Concat(batch_linop(real, {"N": 1}), batch_linop(other, {"N": 2}), idim="N", odim="N")
    x = torch.rand(60)
    torch.testing.assert_close(batch_linop(whole, {"N": 60})(x), whole(x))
    parts, stop = [], 0
    for linop in (tile for big in whole.linops for tile in big):  # type: ignore[attr-defined] # Tiled
        start, stop = stop, stop + (linop.size("N") or 0)
        parts.append(Part(linop, {N: slice(start, stop)}))
    tiled = Tiled(Tiles(real.shape, parts, {N: 60}))
    for _ in range(2):
        torch.testing.assert_close(tiled(x), torch.cat([real.weight, other.weight]) * x)


def test_a_hook_is_called_whenever_it_was_registered() -> None:
    batched = batch_linop(matrix().requires_grad_(False), {"M": 2, "N": 2})
    assert isinstance(batched, Tiled)
    x = values(5)
    batched(x)
    seen: list[nn.Module] = []

    def hook(module: nn.Module, *_: object) -> None:
        seen.append(module)

    modules = [m for m in batched.modules() if isinstance(m, NamedLinop)]
    tile = batched.linops[0]
    handle = tile.register_forward_hook(hook)
    batched(x)
    assert seen == [tile]
    handle.remove()
    batched(x)
    assert seen == [tile]
    handle = nn.modules.module.register_module_forward_hook(hook)
    batched(x)
    handle.remove()
    assert {id(module) for module in seen} >= {id(module) for module in modules}


def test_a_weight_that_no_longer_fits_is_refused_in_the_next_call() -> None:
    """Though one element would broadcast, and the tiles share the operand that has it."""
    mask = Diagonal(torch.rand(3), ("C", "N"), weight_shape=("N",))
    A = mask @ Diagonal(torch.rand(2, 3), "CN")
    batched, x = batch_linop(A, {"C": 1}), torch.rand(2, 3)
    wanted = A(x)
    for _ in range(2):
        torch.testing.assert_close(batched(x), wanted)
    assert isinstance(batched, Tiled)
    assert all([*tile.children()][1] is mask for tile in batched.linops)
    mask.H.weight = torch.rand(1)  # which mask itself does not notice
    for _ in range(2):
        with pytest.raises(ValueError, match="N must have size 1, got 3"):
            batched(x)
    mask.H.weight = torch.rand(3)
    torch.testing.assert_close(batched(x), A(x))


class Fickle(SliceableLinop):
    """The identity, until it returns one element alone."""

    is_right = True

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        return x if Fickle.is_right else x[..., :1]


def test_the_output_of_an_operand_is_checked_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    A = Diagonal(torch.rand(2, 3), "CN") @ Fickle(NamedShape("CN"))
    batched, x = batch_linop(A, {"C": 1}), torch.rand(2, 3)
    for _ in range(2):
        torch.testing.assert_close(batched(x), A(x))
    monkeypatch.setattr(Fickle, "is_right", False)
    with pytest.raises(ValueError, match="N must have size 3, got 1"):
        batched(x)


def test_progress_is_shown_when_asked_for() -> None:
    shown, x = io.StringIO(), values(5)
    A = matrix()
    batched = batch_linop(A, {"M": 1}, tqdm_kwargs={"file": shown, "desc": "rows"})
    torch.testing.assert_close(batched(x).detach(), A(x).detach())
    with torch.no_grad():
        for linop in (batched, batched.H, batched.N):
            shown.truncate(0)
            linop(values(*([4] if linop is batched.H else [5])))
            assert "rows" in shown.getvalue() and "4/4" in shown.getvalue()


def test_no_progress_is_shown_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with torch.no_grad():
        batch_linop(matrix(), {"M": 1})(values(5))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("recorded", [True, False])
def test_each_tile_runs_once(recorded: bool) -> None:
    batched = batch_linop(matrix().requires_grad_(recorded), {"M": 1})
    assert isinstance(batched, Tiled)
    calls: list[object] = []
    for part in batched.tiles.parts:
        part.linop.register_forward_pre_hook(lambda linop, _: calls.append(linop))
    batched(values(5))
    assert len(calls) == len(batched.tiles.parts)


def test_weights_that_nobody_can_see_are_followed() -> None:
    weight = values(3).requires_grad_()
    hidden = SimpleLinop(lambda x: weight * x, lambda x: weight.conj() * x, None, ("N",))
    D = Diagonal(values(3), ("N",))
    batched, x = Tiled(Tiles(D.shape, [Part(D), Part(hidden)], {})), values(3)
    (result,) = torch.autograd.grad(batched(x).abs().sum(), [weight])
    (wanted,) = torch.autograd.grad((D + hidden)(x).abs().sum(), [weight])
    torch.testing.assert_close(result, wanted)


def test_what_autograd_follows_is_not_written_into_the_output() -> None:
    """Though the product is written there while the weight before it is not followed."""
    weight = values(2)
    hidden = SimpleLinop(lambda x: weight * x, lambda x: weight.conj() * x, None, ("N",))
    D = Diagonal(values(2), ("N",))
    parts = [Part(D, {N: slice(0, 2)}), Part(D @ hidden, {N: slice(2, 4)})]
    batched, x = Tiled(Tiles(hidden.shape, parts, {N: 4})), values(4)
    for _ in range(2):
        wanted = batched(x)
    weight.requires_grad_()
    y = batched(x)
    torch.testing.assert_close(y.detach(), wanted)
    assert y.requires_grad


def test_what_is_added_is_not_written_over_the_sum() -> None:
    D, E = (Diagonal(values(4, seed=n), ("N",)) for n in range(2))
    batched, x = Tiled(Tiles(D.shape, [Part(D), Part(E)], {})), values(4)
    for _ in range(2):
        torch.testing.assert_close(batched(x), (D + E)(x))


def test_some_weights_that_are_followed_are_enough() -> None:
    A, B = matrix().requires_grad_(False), matrix()
    batched = batch_linop(A + B, {"M": 2})
    x = values(5)
    torch.autograd.backward(batched(x).abs().sum())
    assert A.weight.grad is None
    assert B.weight.grad is not None


def test_a_weight_that_is_replaced_or_moved_is_used() -> None:
    A = matrix()
    batched, x = used(batch_linop(A, {"M": 2, "N": 2})), values(5)
    A.weight = nn.Parameter(values(4, 5, seed=1))
    torch.testing.assert_close(batched(x), A(x))
    batched.to(torch.complex64)
    assert A.weight.dtype == torch.complex64
    torch.testing.assert_close(batched(x.to(torch.complex64)), A(x.to(torch.complex64)))
    state = {name: torch.ones_like(tensor) for name, tensor in batched.state_dict().items()}
    batched.load_state_dict(state)
    torch.testing.assert_close(batched(torch.ones(5) + 0j), torch.full((4,), 5 + 0j))


def test_a_copy_has_tiles_of_its_own() -> None:
    A = matrix()
    batched, x = used(batch_linop(A, {"M": 2})), values(5)
    wanted = batched(x)
    other = copy.deepcopy(batched)
    with torch.no_grad():
        A.weight.zero_()
    torch.testing.assert_close(other(x), wanted)
    assert not batched(x).any()
    doubled = used(other).with_weights(lambda w: 2 * w)
    torch.testing.assert_close(doubled(x), 2 * wanted)


def test_a_pickle_holds_nothing_that_is_made_again() -> None:
    batched = batch_linop(matrix(), {"M": 1})
    fresh = len(pickle.dumps(batched))
    assert len(pickle.dumps(used(batched))) < 1.1 * fresh


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_modes_of_gradients_change_nothing(mode: Callable[[], Any]) -> None:
    A = matrix().requires_grad_(False)
    batched, x = batch_linop(A, {"M": 3, "N": 2}), values(5)
    with mode():
        torch.testing.assert_close(batched(x), A(x))


def test_autocast_casts_what_tiles_do() -> None:
    A = Dense(torch.rand(4, 5), ("M", "N"))
    batched, x = batch_linop(A, {"M": 3}), torch.rand(2, 5)[0]
    with torch.autocast("cpu", torch.bfloat16):
        result, wanted = batched(x), A(x)
    assert result.dtype == wanted.dtype
    torch.testing.assert_close(result, wanted)


def test_threads_may_call_it_at_once() -> None:
    A = matrix(16, 16)
    batched = batch_linop(A, {"M": 3, "N": 5})
    inputs = [values(16, seed=seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool, torch.no_grad():
        results = list(pool.map(batched, inputs))
    for x, y in zip(inputs, results, strict=True):
        torch.testing.assert_close(y.detach(), A(x).detach())


def test_an_operator_may_use_itself() -> None:
    A = Diagonal(values(4), ("N",))
    batched = batch_linop(A, {"N": 3})
    nested = batch_linop(batched @ batched, {"N": 2})
    x = values(4)
    torch.testing.assert_close(nested(x), A(A(x)))
    torch.testing.assert_close(batch_linop(batched.N, {"N": 1})(x), A.N(x))


def test_second_derivatives_are_those_of_the_whole() -> None:
    batched = batch_linop(matrix(), {"M": 2, "N": 3})
    x = values(5).requires_grad_()
    assert torch.autograd.gradgradcheck(batched, x, fast_mode=True)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_forward_derivatives_are_those_of_the_whole() -> None:
    batched = batch_linop(matrix().requires_grad_(False), {"M": 2, "N": 3})
    x, v = values(5), values(5, seed=1)
    with forward_ad.dual_level():
        y = batched(forward_ad.make_dual(x, v))
        tangent = forward_ad.unpack_dual(y).tangent
    torch.testing.assert_close(tangent, batched(v))


def test_beside_input_and_output_there_is_one_tile(
    peak: Callable[[Callable[[], Any]], int],
) -> None:
    n = 512
    weight = torch.rand(8, n)
    A = Diagonal(weight, ("C", "N")) @ Dense(weight, ("C", "N"), ("N",), ("C", "N"))
    x = torch.rand(n)
    for sizes in ({"C": 1}, {"C": 1, "N": n // 4}, {"N": n // 4, "C": 2}):
        batched = batch_linop(A, sizes)
        tile = x.nbytes * sizes["C"] * sizes.get("N", n) // n
        output = 8 * x.nbytes
        assert peak(lambda: batched(x)) <= output + 2 * tile  # noqa: B023
        assert peak(lambda: batched.H(torch.rand(8, n))) <= output + x.nbytes + 3 * tile  # noqa: B023
        assert peak(lambda: batched.N(x)) <= x.nbytes + 4 * tile  # noqa: B023


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("of_x", [torch.uint8, torch.float32, torch.complex128])
@pytest.mark.parametrize("of_weight", [torch.bool, torch.int32, torch.float64, torch.complex64])
def test_products_of_any_dtypes_are_those_of_the_whole(
    of_weight: torch.dtype, of_x: torch.dtype, followed: bool
) -> None:
    weight = values(4, 3) if of_weight.is_complex else values(4, 3).real.mul(4)
    weight = weight.to(of_weight)
    weight.requires_grad_(followed and (weight.is_floating_point() or weight.is_complex()))
    A, x = Diagonal(weight, ("C", "N")), values(4, 3, seed=1).abs().mul(9).to(of_x)
    for linop in (A, A.H, A @ A):
        batched = batch_linop(linop, {"C": 1})
        for _ in range(3):
            y = batched(x)
            torch.testing.assert_close(y, linop(x))  # of one dtype, too
            assert y.requires_grad == weight.requires_grad


def test_a_column_of_one_block_is_not_copied_twice(
    peak: Callable[[Callable[[], Any]], int],
) -> None:
    A = Dense(torch.rand(4, 256), ("M", "N"))
    batched = batch_linop(A, {"N": 64})
    x = torch.rand(256)
    assert peak(lambda: batched(x)) <= 2 * 4 * x.element_size()


@pytest.mark.parametrize("lengths", [(0, 5), (2, 0, 5)])
def test_there_may_be_nothing_to_do(lengths: tuple[int, ...]) -> None:
    A = Dense(values(4, 5), ("M", "N"), ("...", "N"), ("...", "M"))
    batched, x = batch_linop(A, {"M": 3, "N": 2}), torch.zeros(lengths, dtype=torch.complex128)
    assert batched(x).shape == A(x).shape


def test_an_input_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="Tiled: N must have size 5, got 4"):
        batch_linop(matrix(), {"M": 2})(values(4))


def test_a_training_step_needs_the_workspace_of_one_tile(
    peak: Callable[[Callable[[], Any]], int],
) -> None:
    n_coils, n = 16, 16
    maps = nn.Parameter(values(n_coils, n, n))
    S = Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    mask = Diagonal(values(n, n, seed=1).real, ("...", "Kx", "Ky"))
    normal = batch_linop(mask @ FFT(2) @ S, {"C": 1}).N
    x = values(n, n).requires_grad_()
    gradient, tile = torch.ones_like(x), 4 * x.nbytes
    allocated = peak(lambda: torch.autograd.grad(normal(x), [x, maps], gradient))
    held = maps.nbytes + x.nbytes + gradient.nbytes
    assert held + allocated <= 1.3 * (2 * maps.nbytes + 3 * x.nbytes + tile)


def test_tiles_in_half_precision_keep_their_geometry() -> None:
    A = FourierShift(("N",), torch.tensor([1.23456]), shape=("C", "N"))
    tiled, x = batch_linop(A, {"C": 1}, sizes={"C": 2}), torch.randn(2, 4)
    wanted = tiled(x)
    assert torch.equal(tiled.half()(x), wanted)
