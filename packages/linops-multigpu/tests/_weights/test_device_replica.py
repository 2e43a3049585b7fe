"""An operator placed on the CPU with copies of its own is the twin of one on another device.

Shapes: C coils, N and M pixels.
"""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import FFT, Add, Chain, Dense, Diagonal, NamedLinop, Sampling, Scalar
from linops_core.testing.strategies import trees
from linops_multigpu import DeviceReplica
from linops_multigpu._weights._device_replica import replicated_together
from linops_split import split_linop
from linops_split.testing import assert_tiles_make_the_whole, batch_sizes
from memmap import ModuleMemoryMap
from nameddim import ND

CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")
def copies_of_what_is_there() -> Iterator[None]:
    """Have all weights copied, though they are on the device already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("linops_multigpu._weights._replica.is_on", lambda *_: False)
        yield


PART = {ND("N"): slice(1, 3)}


def diagonal() -> NamedLinop:
    return Diagonal(nn.Parameter(torch.rand(4, dtype=torch.complex128)), ("N",))


def dense() -> NamedLinop:
    return Dense(nn.Parameter(torch.rand(3, 4, dtype=torch.complex128)), ("M", "N"))


def tile() -> NamedLinop:
    A = Dense(nn.Parameter(torch.rand(5, 8, dtype=torch.complex128)), ("M", "N"))
    return A.split(A, {ND("M"): slice(1, 4), ND("N"): slice(2, 6)})


def chain() -> NamedLinop:
    S = Dense(
        nn.Parameter(torch.rand(2, 4, dtype=torch.complex128)), ("C", "Nx"), ("Nx",), ("C", "Nx")
    )
    return Sampling([torch.tensor([0, 2, 2])], [4]) @ FFT(1, ("C",)) @ S


def tied() -> NamedLinop:
    weight = nn.Parameter(torch.rand(4, dtype=torch.complex128))
    return Diagonal(weight, ("N",)) + 2j * Diagonal(weight.detach()[:4], ("N",))


def batches() -> NamedLinop:
    return Diagonal(nn.Parameter(torch.rand(1, dtype=torch.complex128)), ("...", "N"), ("N",))


FACTORIES = [diagonal, dense, tile, chain, tied, batches]
each = pytest.mark.parametrize("make", FACTORIES, ids=lambda make: make.__name__)


def frozen(A: NamedLinop) -> NamedLinop:
    return A.requires_grad_(False)


def matrix(A: NamedLinop) -> Tensor:
    return A.to_dense({"Nx": 4, "N": 4, "...": 2})


def assert_same(placed: NamedLinop, A: NamedLinop) -> None:
    torch.testing.assert_close(matrix(placed), matrix(A))
    torch.testing.assert_close(placed.H.to_dense({"C": 2, "N": 4, "...": 2}), matrix(A).mH)
    torch.testing.assert_close(matrix(placed.N), matrix(A).mH @ matrix(A))


def storages(A: NamedLinop) -> set[int]:
    return {t.untyped_storage().data_ptr() for t in (*A.parameters(), *A.buffers())}


@each
@pytest.mark.parametrize("trainable", [False, True])
def test_it_computes_what_its_source_does(make: Callable[[], NamedLinop], trainable: bool) -> None:
    A = make().requires_grad_(trainable)
    placed = DeviceReplica(A, CPU)
    with torch.no_grad():
        assert_same(placed, A)
    assert_same(placed, A)
    assert placed.H.H is placed
    assert repr(placed).startswith(f"{A.name} on cpu (")


@each
def test_its_tensors_are_those_of_the_source_and_the_copies_others(
    make: Callable[[], NamedLinop],
) -> None:
    A = make()
    before = [*A.parameters(), *A.buffers()]
    placed = DeviceReplica(A, CPU)
    assert placed.source is A
    results = [*placed.parameters(), *placed.buffers()]
    assert all(one is other for one, other in zip(results, before, strict=True))
    assert list(placed.state_dict()) == [f"0.{name}" for name in A.state_dict()]
    with torch.no_grad():
        assert storages(placed.up_to_date()).isdisjoint(storages(A))


@given(st.data())
def test_whatever_is_placed_computes_what_it_did(data: st.DataObject) -> None:
    known = data.draw(trees())
    placed = DeviceReplica(known.linop, CPU)
    sizes = known.spaces.sizes
    with torch.set_grad_enabled(data.draw(st.booleans())):
        torch.testing.assert_close(known.dense(placed, sizes), known.matrix)
        torch.testing.assert_close(known.dense(placed.H, sizes), known.matrix.mH)
        torch.testing.assert_close(known.dense(placed.N, sizes), known.matrix.mH @ known.matrix)


@given(st.data())
def test_whatever_is_placed_is_cut_like_its_source(data: st.DataObject) -> None:
    A = data.draw(trees()).linop
    placed = DeviceReplica(A, CPU)
    assert placed.dims == A.dims
    for dim in A.dims:
        assert placed.role(dim) == A.role(dim) and placed.size(dim) == A.size(dim)
    sizes = data.draw(batch_sizes(placed))
    tiles, ibatches, obatches = split_linop(placed, sizes)
    assert all(isinstance(tile, DeviceReplica) for tile in tiles.ravel().tolist())
    wanted = split_linop(A, sizes)
    assert ibatches.tolist() == wanted[1].tolist() and obatches.tolist() == wanted[2].tolist()


@given(st.data())
def test_tiles_of_what_is_placed_make_the_whole(data: st.DataObject) -> None:
    known = data.draw(trees())
    placed = DeviceReplica(known.linop, CPU)
    with torch.no_grad():
        assert_tiles_make_the_whole(placed, data.draw(batch_sizes(placed)), known.spaces.sizes)


def test_the_copies_hold_only_what_a_tile_reads() -> None:
    with torch.no_grad():
        (weight,) = DeviceReplica(tile(), CPU).up_to_date().buffers()
    assert weight.shape == (3, 4)


def weight_of(A: NamedLinop) -> Tensor:
    weights: list[Tensor] = [*A.parameters(), *A.buffers()]
    assert len(weights) == 1
    return weights[0]


def write(A: NamedLinop) -> None:
    with torch.no_grad():
        weight_of(A).mul_(3)


def replace(A: Diagonal) -> None:
    A.weight = nn.Parameter(torch.rand(4, dtype=torch.complex128), requires_grad=False)


def load(A: Diagonal) -> None:
    A.load_state_dict({"weight": torch.rand(4, dtype=torch.complex128)})


def assign(A: Diagonal) -> None:
    A.load_state_dict({"weight": torch.rand(4, dtype=torch.complex128)}, assign=True)
    A.requires_grad_(False)


def set_data(A: Diagonal) -> None:
    weight_of(A).data = torch.rand(4, dtype=torch.complex128)


def cast(A: Diagonal) -> None:
    A.to(dtype=torch.float32)


def restride(A: Diagonal) -> None:
    weight_of(A).data = weight_of(A).data.repeat_interleave(2)[::2].mul_(2)


def conjugate(A: Diagonal) -> None:
    A.weight = nn.Parameter(weight_of(A).detach().conj(), requires_grad=False)


CHANGES = [write, replace, load, assign, set_data, cast, restride, conjugate]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_it_follows_its_source(change: Callable[[Diagonal], None]) -> None:
    A = Diagonal(torch.nn.Parameter(torch.rand(4, dtype=torch.complex128), False), ("N",))
    placed = DeviceReplica(A, CPU)
    part = placed.split(placed, PART)
    derived = [placed, placed.H, placed.N, part, part.H, placed.H.N, placed.N.H]
    for linop in derived:
        matrix(linop) if linop not in (part, part.H) else part(torch.ones(2))
    kept = []
    for _ in range(3):
        kept += [linop.up_to_date() for linop in derived if isinstance(linop, DeviceReplica)]
        change(A)
        twin = Diagonal(weight_of(A).detach().clone(), ("N",))
        cut = twin.split(twin, PART)
        wanted = [twin, twin.H, twin.N, cut, cut.H, twin.H.N, twin.N.H]
        for result, linop in zip(derived, wanted, strict=True):
            x = torch.rand(2 if linop in (cut, cut.H) else 4, dtype=torch.complex64)
            assert result(x).dtype == linop(x).dtype
            torch.testing.assert_close(result(x), linop(x))


def test_it_follows_a_storage_at_the_address_of_one_that_was_freed() -> None:
    A = Diagonal(nn.Parameter(torch.zeros(1000), False), ("N",))
    placed = DeviceReplica(A, CPU)
    for value in range(1, 30):
        weight_of(A).data = torch.zeros(1000)  # frees the storage that the copies were made from
        weight_of(A).data = torch.full((1000,), float(value))
        assert placed(torch.ones(1000))[0] == value


def test_it_follows_weights_that_share_their_own_memory() -> None:
    A = Diagonal(torch.ones(1, dtype=torch.complex128).expand(4), ("N",))
    placed = DeviceReplica(A, CPU)
    assert_same(placed, A)
    weight_of(A).as_strided((1,), (1,)).mul_(2)
    assert_same(placed, A)


def test_weights_of_which_nobody_counts_the_writes_are_sent_each_time() -> None:
    with torch.inference_mode():
        A = Diagonal(torch.ones(4), ("N",))
        placed = DeviceReplica(A, CPU)
        assert placed(torch.ones(4))[0] == 1
        weight_of(A).mul_(2)
        assert placed(torch.ones(4))[0] == 2


@pytest.mark.parametrize("changed", [0, 1])
def test_a_change_of_one_of_several_is_followed(changed: int) -> None:
    linops = [frozen(diagonal()), frozen(dense())]
    placed = replicated_together(linops, CPU)
    write(linops[changed])
    for one, A in zip(placed, linops, strict=True):
        torch.testing.assert_close(matrix(one), matrix(A))


def test_copies_made_in_inference_mode_serve_autograd_later() -> None:
    A = frozen(diagonal())
    with torch.inference_mode():
        placed = DeviceReplica(A, CPU)
        matrix(placed)
    x = torch.rand(4, dtype=torch.complex128, requires_grad=True)
    placed(x).abs().sum().backward()
    assert x.grad is not None


def test_the_copies_are_made_once_for_all_that_is_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    A = frozen(diagonal())
    placed = DeviceReplica(A, CPU)
    sent = placed.up_to_date()
    part = placed.split(placed, PART)
    assert isinstance(part, DeviceReplica) and isinstance(placed.H, DeviceReplica)
    assert isinstance(placed.N, DeviceReplica)
    for linop in (placed, part, placed.H, placed.N):
        assert isinstance(linop, DeviceReplica)
        assert storages(linop.up_to_date()) == storages(sent)
        assert linop.up_to_date() is linop.up_to_date()


def test_outdated_copies_leave_the_device() -> None:
    A = frozen(diagonal())
    placed = DeviceReplica(A, CPU)
    for linop in (placed, placed.H, placed.N):
        matrix(linop)
    gc.disable()
    try:
        old = weakref.ref(next(placed.up_to_date().buffers()))
        with torch.no_grad():
            weight_of(A).mul_(2)
        placed(torch.ones(4))
        assert old() is None
    finally:
        gc.enable()


def test_outdated_copies_leave_the_device_before_the_new_ones_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Watching(ModuleMemoryMap):
        def copy_to(self, module: nn.ModuleList, *args: object) -> nn.ModuleList:  # type: ignore[override]
            seen.append(old())
            return super().copy_to(module, CPU)

    seen: list[Tensor | None] = []
    A = frozen(diagonal())
    placed = DeviceReplica(A, CPU)
    old = weakref.ref(next(placed.up_to_date().buffers()))
    monkeypatch.setattr("linops_multigpu._weights._replica.ModuleMemoryMap", Watching)
    write(A)
    placed.up_to_date()
    assert seen == [None]


@each
def test_gradients_reach_the_source_and_the_input(make: Callable[[], NamedLinop]) -> None:
    A = make()
    placed = DeviceReplica(A, CPU)
    vectors = {id(A): [], id(placed): []}  # type: dict[int, list[Tensor | None]]
    isize = [A.size(dim) or 4 for dim in A.ishape]
    start = torch.rand(isize, dtype=torch.complex128)
    for linop in (A, placed):
        x = start.clone().requires_grad_()
        for operator in (linop, linop.N):
            A.zero_grad()
            operator(x).abs().pow(3).sum().backward()
            vectors[id(linop)] += [x.grad, *(w.grad for w in A.parameters())]
    assert vectors[id(A)] and all(grad is not None for grad in vectors[id(A)])
    for result, wanted in zip(vectors[id(placed)], vectors[id(A)], strict=True):
        torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize("change", [replace, set_data, assign], ids=lambda change: change.__name__)
def test_new_weights_do_not_break_a_backward_that_is_due(
    change: Callable[[Diagonal], None],
) -> None:
    A = Diagonal(nn.Parameter(torch.rand(4, dtype=torch.complex128), False), ("N",))
    placed = DeviceReplica(A, CPU)
    x = torch.rand(4, dtype=torch.complex128, requires_grad=True)
    y = placed(x)
    wanted = weight_of(A).detach().clone().conj()
    change(A)
    placed(x)
    y.real.sum().backward()
    torch.testing.assert_close(x.grad, wanted)


@each
@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda A: pickle.loads(pickle.dumps(A))],
    ids=["deepcopy", "pickle"],
)
def test_a_copy_is_independent_and_the_same(
    make: Callable[[], NamedLinop], duplicate: Callable[[NamedLinop], NamedLinop]
) -> None:
    A = frozen(make())
    placed = DeviceReplica(A, CPU)
    linops = [placed, placed.H, placed.N]
    matrices = [linop.to_dense({"Nx": 4, "N": 4, "C": 2, "...": 2}) for linop in linops]
    for linop, wanted in zip(linops, matrices, strict=True):
        other = duplicate(linop)
        with torch.no_grad():
            for weight in A.parameters():
                weight.mul_(2)
        result = other.to_dense({"Nx": 4, "N": 4, "C": 2, "...": 2})
        torch.testing.assert_close(result, wanted)
        assert storages(other).isdisjoint(storages(A))
        with torch.no_grad():
            for tensor in (*other.parameters(), *other.buffers()):
                tensor.mul_(0)
            for weight in A.parameters():
                weight.div_(2)
        assert not other.to_dense({"Nx": 4, "N": 4, "C": 2, "...": 2}).any()
        torch.testing.assert_close(matrix(placed), matrices[0])


def test_a_pickle_holds_the_weights_once() -> None:
    A = Diagonal(torch.rand(10_000, dtype=torch.float64), ("N",))
    placed = DeviceReplica(A, CPU)
    placed.N(torch.ones(10_000))
    assert len(pickle.dumps(placed)) < 100_000


def test_a_shallow_copy_computes_on_the_same_copies() -> None:
    placed = DeviceReplica(frozen(diagonal()), CPU)
    other = copy.copy(placed)
    assert other.up_to_date() is placed.up_to_date()


def test_dimensions_are_renamed_and_resolved_as_in_the_source() -> None:
    A = frozen(batches())
    placed = DeviceReplica(A, CPU)
    D = Diagonal(torch.rand(2, 3, dtype=torch.complex128), ("C", "N"))
    named = placed @ D
    assert named.ishape == ("C", "N")
    torch.testing.assert_close(named.to_dense(), (A @ D).to_dense())
    sandwich = placed.normal(D)
    torch.testing.assert_close(sandwich.to_dense(), A.normal(D).to_dense())
    assert placed.resolved() is placed and placed.renamed({}) is placed


def test_it_says_why_a_dimension_cannot_be_cut_as_the_source_does() -> None:
    A = FFT(1, ("C",))
    placed = DeviceReplica(A, CPU)
    assert placed.why_opaque("Nx") == A.why_opaque("Nx") != None  # noqa: E711
    assert placed.why_opaque("C") is None


def test_other_weights_make_another_placed_operator() -> None:
    A = frozen(diagonal())
    placed = DeviceReplica(A, CPU)
    doubled = placed.with_weights(lambda weight: 2 * weight)
    torch.testing.assert_close(matrix(doubled), 2 * matrix(A))
    torch.testing.assert_close(matrix(placed), matrix(A))


def test_an_operator_without_weights_can_be_placed() -> None:
    placed = DeviceReplica(Add(Scalar(2.0, ("N",)), Chain(Scalar(1j, ("N",)))), CPU)
    assert torch.equal(placed(torch.ones(1)), torch.tensor([2 + 1j]))
    assert torch.equal(placed.H(torch.ones(1)), torch.tensor([2 - 1j]))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_steps_of_optimizers_are_followed(kind: type[torch.optim.Optimizer], fused: bool) -> None:
    A = Diagonal(nn.Parameter(torch.rand(3)), ("N",))
    part = DeviceReplica(A, "meta")
    with torch.no_grad():
        before = part.up_to_date()
        assert part.up_to_date() is before
    optimizer = kind(A.parameters(), lr=0.1, fused=fused)  # type: ignore[call-arg]
    torch.autograd.backward(A(torch.ones(3)).sum())
    optimizer.step()
    with torch.no_grad():
        assert part.up_to_date() is not before


def test_what_cannot_be_placed_is_refused() -> None:
    A = Diagonal(torch.rand(3), ("N",))
    with pytest.raises(TypeError, match="DeviceReplica: source must be a NamedLinop, got"):
        DeviceReplica(None, "meta")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a device must be named as in"):
        DeviceReplica(A, "nowhere")
    with pytest.raises(ValueError, match="the device cuda:98 must exist to be used"):
        DeviceReplica(A, "cuda:98")
