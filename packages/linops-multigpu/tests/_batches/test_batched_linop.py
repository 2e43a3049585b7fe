"""Batched operators against the whole ones.

On a CPU the tiles sit on the base device, or on ``meta``, where shapes and devices are real and
values are not, or on the CUDA devices of a fake mode.

Shapes: C coils, M rows, N columns, K samples, Nx and Kx a grid.
"""

import copy
import gc
import itertools
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from linops_core import (
    FFT,
    Add,
    Concat,
    Dense,
    Diagonal,
    NamedLinop,
    PadDim,
    Sampling,
    SimpleLinop,
    SplitError,
)
from linops_core.siblings import submodules_of
from linops_core.testing.strategies import trees
from linops_multigpu import (
    BatchedLinop,
    BatchSpec,
    DeviceReplica,
    DeviceSpec,
    Kind,
    create_batched_linop,
)
from linops_multigpu.testing import simulated
from linops_split import Part, Tiles, split_linop
from linops_split.testing import batch_sizes, cuttable_dims
from nameddim import ND, NamedShape


def sense(trainable: bool = False, n_coils: int = 4) -> NamedLinop:
    maps = nn.Parameter(torch.rand(n_coils, 6, dtype=torch.complex128), trainable)
    S = Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))
    return Sampling([torch.tensor([0, 2, 5])], [6]) @ FFT(1, ("C",)) @ S


def matrix() -> Dense:
    return Dense(nn.Parameter(torch.rand(4, 6, dtype=torch.complex128), False), ("M", "N"))


def same_matrix(result: NamedLinop, wanted: NamedLinop) -> None:
    torch.testing.assert_close(result.to_dense({"Nx": 6}), wanted.to_dense({"Nx": 6}))


def assert_equal(result: NamedLinop, wanted: NamedLinop) -> None:
    same_matrix(result, wanted)
    same_matrix(result.H, wanted.H)
    same_matrix(result.N, wanted.N)


def placed(A: NamedLinop) -> list[DeviceReplica]:
    return [part for part in submodules_of(A) if isinstance(part, DeviceReplica)]


def devices_of(B: BatchedLinop) -> list[str]:
    return [str(device) for device in B.where.devices]


def moves(B: BatchedLinop) -> list[tuple[Kind, str]]:
    """Return what is sent, and what is collected, in any order."""
    return sorted(
        (a.kind, str(a.device)) for a in B.plan().actions if a.kind in (Kind.SEND, Kind.COLLECT)
    )


def one_part(A: NamedLinop) -> Tiles:
    return Tiles(A.shape, [Part(A)], {})


SPECS: list[BatchSpec | list[BatchSpec]] = [
    BatchSpec({}),
    BatchSpec({"C": 3}),
    BatchSpec({"C": 1, "K": 2}, "cpu"),
    BatchSpec({"K": 2, "C": 3}, [["cpu"], ["cpu"]], "cpu"),
    [BatchSpec({"C": 3}, ["cpu", "cpu"]), BatchSpec({"C": 2})],
    [BatchSpec({"K": 2}), BatchSpec({"C": 3}), BatchSpec({"C": 1, "K": 1})],
]


@pytest.mark.parametrize("specs", SPECS)
def test_it_equals_the_operator(specs: BatchSpec | list[BatchSpec]) -> None:
    A = sense()
    assert_equal(create_batched_linop(A, specs), A)
    assert_equal(create_batched_linop(A.H, specs), A.H)
    same_matrix(create_batched_linop(A.N, specs), A.N)


@st.composite
def specs_for(draw: st.DrawFn, linop: NamedLinop) -> list[BatchSpec]:
    """Draw nested specs, all of whose devices are the CPU."""
    devices = st.sampled_from([None, "cpu", ["cpu"], ["cpu", "cpu", "cpu"]])
    specs: list[BatchSpec] = []
    tiles: list[NamedLinop] = [linop]
    for _ in range(draw(st.integers(1, 3))):
        # What the next spec cuts are the tiles of this one: all of them.
        common = set(cuttable_dims(tiles[0])).intersection(*map(cuttable_dims, tiles))
        sizes = {dim: n for dim, n in draw(batch_sizes(tiles[0])).items() if dim in common}
        matrix = draw(devices)
        base = draw(st.sampled_from([None, "cpu"]))
        specs.append(BatchSpec(sizes, None if not sizes else matrix, base))
        tiles = [part for tile in tiles for part in split_linop(tile, sizes)[0].ravel().tolist()]
    return specs


@given(st.data())
def test_any_operator_in_nested_tiles_equals_its_matrix(data: st.DataObject) -> None:
    known = data.draw(trees())
    B = create_batched_linop(known.linop, data.draw(specs_for(known.linop)))
    sizes = known.spaces.sizes
    with torch.set_grad_enabled(data.draw(st.booleans())):
        torch.testing.assert_close(known.dense(B, sizes), known.matrix)
        torch.testing.assert_close(known.dense(B.H, sizes), known.matrix.mH)
        torch.testing.assert_close(known.dense(B.N, sizes), known.matrix.mH @ known.matrix)


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_any_operator_on_meta_has_the_right_shapes(data: st.DataObject) -> None:
    known = data.draw(trees())
    # What a function of a user's holds does not move with the operator.
    assume(not any(isinstance(part, SimpleLinop) for part in known.linop.modules()))
    sizes = data.draw(batch_sizes(known.linop))
    B = create_batched_linop(known.linop, BatchSpec(sizes, None, "meta"))
    lengths = known.spaces.lengths(known.spaces.ishape)
    x = torch.empty(lengths, dtype=torch.complex128, device="meta")
    y = B(x)
    assert y.device.type == "meta"
    assert y.shape == tuple(known.spaces.lengths(known.spaces.oshape))
    assert B.H(y).shape == B.N(x).shape == x.shape


@pytest.mark.parametrize("specs", SPECS)
def test_results_are_the_same_bits_on_every_run(specs: BatchSpec | list[BatchSpec]) -> None:
    A = sense()
    x = torch.rand(6, dtype=torch.complex128)
    runs = [create_batched_linop(A, specs) for _ in range(2)]
    first = runs[0].N(x)
    assert all(torch.equal(run.N(x), first) for run in runs for _ in range(3))


def test_a_list_of_one_spec_is_that_spec() -> None:
    A = matrix()
    one, other = (
        create_batched_linop(A, spec) for spec in (BatchSpec({"M": 3}), [BatchSpec({"M": 3})])
    )
    assert repr(one) == repr(other)


def test_specs_nest_the_first_one_outermost() -> None:
    B = create_batched_linop(matrix(), [BatchSpec({"M": 2}), BatchSpec({"N": 3})])
    slices = [(part.writes[ND("M")].start, part.reads[ND("N")].start) for part in B.tiles.parts]
    assert slices == [(0, 0), (0, 3), (2, 0), (2, 3)]


def test_sizes_that_no_operator_knows_can_be_given() -> None:
    A = FFT(1, ("C",))
    specs = [BatchSpec({"C": 3}, ["cpu"]), BatchSpec({"C": 2})]
    with pytest.raises(SplitError, match=r"give it, as in sizes="):
        create_batched_linop(A, specs)
    with pytest.raises(TypeError, match="sizes must be a mapping of dimension to size, got 5"):
        create_batched_linop(A, specs, sizes=5)  # type: ignore[arg-type]
    B = create_batched_linop(A, specs, sizes={"C": 5})
    x = torch.rand(5, 4, dtype=torch.complex128)
    torch.testing.assert_close(B(x), A(x))
    with pytest.raises(ValueError, match="C must have size 5, got 4"):
        B(x[:4])


@pytest.mark.parametrize("sizes", [{}, {"M": 1}, {"N": 1}])
def test_tiles_that_read_or_write_a_part_of_their_slice_are_cut_again(
    sizes: dict[str, int],
) -> None:
    pad = PadDim("N", 3, 6, ("N",), ("M",))
    for A in (pad, pad.H):
        B = create_batched_linop(A, [BatchSpec({"M": 4}), BatchSpec(sizes)])
        torch.testing.assert_close(B.to_dense(), A.to_dense())


def test_tiles_on_the_base_device_read_the_weights_themselves() -> None:
    A = sense()
    B = create_batched_linop(A, BatchSpec({"C": 1}, ["cpu"]))
    assert not placed(B) and not moves(B)
    assert {id(w) for w in B.parameters()} == {id(w) for w in A.parameters()}
    assert {id(w) for w in B.buffers()} == {id(w) for w in A.buffers()}


def test_the_operator_is_not_changed() -> None:
    A = sense()
    before = [
        (name, id(t), t.device, t._version) for name, t in A.state_dict(keep_vars=True).items()
    ]
    shape, text = A.shape, repr(A)
    create_batched_linop(A, BatchSpec({"C": 1}, ["meta", "cpu"], "cpu"))
    after = [
        (name, id(t), t.device, t._version) for name, t in A.state_dict(keep_vars=True).items()
    ]
    assert (after, A.shape, repr(A)) == (before, shape, text)


def test_tiles_take_turns_on_the_devices() -> None:
    B = create_batched_linop(matrix(), BatchSpec({"M": 1, "N": 2}, ["cpu", "meta"], "cpu"))
    assert devices_of(B) == ["cpu", "meta", "cpu"] * 4
    assert [type(tile) for tile in B.linops] == [Dense, DeviceReplica, Dense] * 4
    # What the four read is sent once.
    assert moves(B) == [(Kind.COLLECT, "meta")] * 4 + [(Kind.SEND, "meta")]


def test_the_device_matrix_has_the_axes_of_the_grid() -> None:
    B = create_batched_linop(matrix(), BatchSpec({"M": 2, "N": 3}, [["cpu"], ["meta"]], "cpu"))
    assert devices_of(B) == ["cpu", "cpu", "meta", "meta"]
    assert moves(B) == [(Kind.COLLECT, "meta")] + [(Kind.SEND, "meta")] * 2


def test_inner_specs_work_where_the_outer_ones_sent_them() -> None:
    specs = [BatchSpec({"M": 2}, ["meta", "cpu"], "cpu"), BatchSpec({"N": 3})]
    B = create_batched_linop(matrix(), specs)
    assert devices_of(B) == ["meta", "meta", "cpu", "cpu"]
    # The input once, in two slices; one sum for both tiles of the row.
    assert moves(B) == [(Kind.COLLECT, "meta")] + [(Kind.SEND, "meta")] * 2
    assert [part.device.type for part in placed(B)] == ["meta", "meta"]


def test_inner_specs_may_have_devices_of_their_own() -> None:
    specs = [BatchSpec({"M": 2}, ["meta", "cpu"], "cpu"), BatchSpec({"N": 3}, ["cpu"], "cpu")]
    B = create_batched_linop(matrix(), specs)
    assert [part.device.type for part in placed(B)] == []
    assert moves(B) == []


def copied(B: NamedLinop) -> dict[int, int]:
    """Return the bytes of each storage that the copies of a batched operator hold."""
    with torch.no_grad():
        copies = [tensor for part in placed(B) for tensor in part.up_to_date().buffers()]
    return {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in copies}


def test_a_device_gets_the_bytes_that_its_tiles_read() -> None:
    A = matrix()
    B = create_batched_linop(A, BatchSpec({"M": 1}, ["meta", "cpu", "cpu", "cpu"], "cpu"))
    assert sum(copied(B).values()) == 6 * 16
    C = create_batched_linop(A, BatchSpec({"M": 1}, ["meta", "meta", "cpu", "cpu"], "cpu"))
    assert sum(copied(C).values()) == 2 * 6 * 16


def test_what_tiles_share_is_sent_once() -> None:
    A = Diagonal(torch.rand(6, dtype=torch.complex128), ("C", "N"), weight_shape=("N",)) @ Dense(
        torch.rand(5, dtype=torch.complex128), ("C",), ("N",), ("C", "N")
    )
    B = create_batched_linop(A, BatchSpec({"C": 1}, ["meta"], "cpu"))
    assert len(placed(B)) == 5
    assert sum(copied(B).values()) == (6 + 5) * 16
    assert sum(copied(B.H).values()) == sum(copied(B.N).values()) == (6 + 5) * 16


def test_changes_of_the_weights_are_followed_and_sent_once() -> None:
    A = matrix()
    B = create_batched_linop(A, BatchSpec({"M": 1}, ["meta"], "cpu"))
    with torch.no_grad():
        next(A.parameters()).mul_(2)
        versions = [part.up_to_date() for part in placed(B)]
        assert [part.up_to_date() for part in placed(B)] == versions
    assert sum(copied(B).values()) == 4 * 6 * 16


def test_everything_on_meta_has_the_right_shapes() -> None:
    A = sense()
    B = create_batched_linop(A, BatchSpec({"C": 3, "K": 2}, ["meta"], "meta"))
    x = torch.empty(6, dtype=torch.complex128, device="meta")
    assert B(x).shape == (4, 3) and B(x).device.type == "meta"
    assert B.H(B(x)).shape == B.N(x).shape == (6,)
    with pytest.raises(ValueError, match="the input must be on cpu, got meta"):
        create_batched_linop(A, BatchSpec({"C": 3}, ["meta"], "cpu"))(x)


class Devices(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes on which devices which operations run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[tuple[str, str]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.seen.append((func.overloadpacket.__name__, str(result.device)))
        return result


@pytest.fixture
def on_two_gpus() -> Iterator[NamedLinop]:
    """An operator whose upper half is on one fake GPU, its lower half on another."""
    with FakeTensorMode():
        halves = [Dense(torch.rand(2, 6, device=f"cuda:{k}"), ("M", "N")) for k in range(2)]
        yield Concat(*halves, odim="M")


def test_each_tile_computes_on_its_device_and_the_output_returns(on_two_gpus: NamedLinop) -> None:
    B = create_batched_linop(on_two_gpus, BatchSpec({"M": 2}, ["cuda:0", "cuda:1"], "cpu"))
    assert not placed(B)  # the weights are there already
    with Devices() as devices:
        y = B(torch.rand(6))
    assert y.device.type == "cpu" and y.shape == (4,)
    computed = [device for name, device in devices.seen if name in ("bmm", "mv", "mm")]
    assert computed == ["cuda:0", "cuda:1"]
    sent = [device for name, device in devices.seen if name == "_to_copy"]
    assert sent == ["cuda:0", "cpu", "cuda:1", "cpu"]


def test_a_normal_sends_the_input_and_returns_the_partial_sum(on_two_gpus: NamedLinop) -> None:
    B = create_batched_linop(on_two_gpus, BatchSpec({"M": 2}, ["cuda:0", "cuda:1"], "cpu")).N
    with Devices() as devices:
        y = B(torch.rand(6))
    assert y.device.type == "cpu" and y.shape == (6,)
    sent = [device for name, device in devices.seen if name == "_to_copy"]
    assert sent == ["cuda:0", "cpu", "cuda:1", "cpu"]


@pytest.mark.parametrize(
    ("specs", "default", "error", "message"),
    [
        ([], None, ValueError, "there must be at least one BatchSpec, got none"),
        (BatchSpec({"Q": 1}), None, SplitError, r"must be one of \['M', 'N'\], got Q"),
        (BatchSpec({"M": 1}, ["cuda:98"]), None, ValueError, "the device cuda:98 must exist"),
        (BatchSpec({"M": 1}, None, "cuda:98"), None, ValueError, "cuda:98 must exist"),
        (BatchSpec({"M": 1}), "cuda:98", ValueError, "the device cuda:98 must exist"),
        ([BatchSpec({"M": 1}, ["cuda:98"]), BatchSpec({"N": 1}, ["cpu"])], None, ValueError,
         "the device cuda:98 must exist"),
        (None, None, TypeError, "batch_specs must be BatchSpecs, got"),
        (BatchSpec({"M": 1}), "gpu", ValueError, "a device must be named as in"),
        (BatchSpec({"M": 1}, [["meta"]], "cpu"), None, ValueError,
         r"at most one axis per dimension of \(M\), got shape \(1, 1\)"),
    ],
)  # fmt: skip
def test_mistakes_are_found_before_anything_is_sent(
    specs: BatchSpec | list[BatchSpec],
    default: str | None,
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("something was sent")

    A = matrix()
    monkeypatch.setattr("linops_multigpu._batches._create.replicated_together", fail)
    with pytest.raises(AssertionError, match="something was sent"):
        create_batched_linop(A, BatchSpec({"M": 1}, ["meta"], "cpu"))
    with pytest.raises(error, match=message):
        create_batched_linop(A, specs, default)


def test_the_base_of_an_operator_on_several_devices_must_be_given() -> None:
    A = Diagonal(torch.ones(2), ("N",)) @ Diagonal(torch.ones(2, device="meta"), ("N",))
    with pytest.raises(
        ValueError, match=r"must be given for .* several devices, got \['cpu', 'meta'\]"
    ):
        create_batched_linop(A, BatchSpec({"N": 1}))
    B = create_batched_linop(A, BatchSpec({"N": 1}), "meta")
    assert B(torch.ones(2, device="meta")).device.type == "meta"


def test_the_base_is_where_the_tensors_are_or_else_the_cpu() -> None:
    x = torch.ones(4, device="meta")
    A = Diagonal(torch.ones(4, device="meta"), ("N",))
    assert create_batched_linop(A, BatchSpec({"N": 1}))(x).device.type == "meta"
    B = create_batched_linop(FFT(1, ("C",)), BatchSpec({}, "meta"))
    assert moves(B) == [(Kind.COLLECT, "meta"), (Kind.SEND, "meta")]


def test_moves_inside_of_what_is_no_composition_are_refused() -> None:
    class Held(NamedLinop):
        def __init__(self) -> None:
            super().__init__(NamedShape(("N",), ("N",)))
            self.held = DeviceReplica(Diagonal(torch.ones(4), ("N",)), "cpu")

    with pytest.raises(
        ValueError, match="moves data between devices inside an operator that is not"
    ):
        create_batched_linop(Held(), BatchSpec({}, "meta", "cpu"))


def test_what_was_batched_can_be_batched_again_where_it_is() -> None:
    A = sense()
    B = create_batched_linop(A, BatchSpec({"C": 3}))
    assert_equal(create_batched_linop(B, BatchSpec({"C": 2, "K": 1})), A)
    C = create_batched_linop(matrix(), BatchSpec({"M": 3}, ["meta"], "cpu"))
    D = create_batched_linop(C, BatchSpec({"M": 2, "N": 4}))
    assert {part.device.type for part in placed(D)} == {"meta"}
    assert sum(copied(D).values()) == 4 * 6 * 16


@pytest.mark.parametrize("specs", SPECS)
def test_gradients_reach_input_and_weights(specs: BatchSpec | list[BatchSpec]) -> None:
    A = sense(trainable=True)
    B = create_batched_linop(A, specs)
    start = torch.rand(6, dtype=torch.complex128)
    gradients = []
    for linop in (A, B):
        x = start.clone().requires_grad_()
        A.zero_grad()
        loss = linop(x).abs().pow(3).sum() + linop.N(x).abs().sum()
        torch.autograd.backward(loss)
        gradients.append([x.grad, *(weight.grad for weight in A.parameters())])
    for result, wanted in zip(*gradients, strict=True):
        assert wanted is not None and wanted.abs().max() > 0
        torch.testing.assert_close(result, wanted)


def test_gradients_reach_what_a_function_holds() -> None:
    w = torch.rand(4, dtype=torch.complex128, requires_grad=True)
    held = SimpleLinop(lambda x: w * x, lambda x: w.conj() * x, ishape=("N",))
    A = held @ Diagonal(torch.rand(4, dtype=torch.complex128), ("N",))
    B = create_batched_linop(Add(A, A), BatchSpec({}))
    x = torch.rand(4, dtype=torch.complex128, requires_grad=True)
    result = torch.autograd.grad(B(x).abs().sum(), [x, w])
    torch.testing.assert_close(result, torch.autograd.grad((2 * A(x)).abs().sum(), [x, w]))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own formulas
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients_to_the_input_are_those_of_the_whole(dtype: torch.dtype) -> None:
    A = matrix()
    with simulated(3):
        B = create_batched_linop(A, BatchSpec({"N": 4}, ["sim:1", "sim:2"], "cpu"))
        x = torch.rand(6, dtype=dtype, requires_grad=True)
        assert torch.autograd.gradcheck(B, x, fast_mode=True)
        assert torch.autograd.gradgradcheck(B, x, fast_mode=True)
        tangent = torch.rand(6, dtype=dtype)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x.detach(), tangent)
            y = forward_ad.unpack_dual(B(dual))
        torch.testing.assert_close(y.tangent, A(tangent.to(A.weight.dtype)))


def test_a_bar_moves_over_what_is_issued(capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(2):
        spec = BatchSpec({"M": 1}, ["sim:1"], "cpu")
        B = create_batched_linop(matrix(), spec, tqdm_kwargs={"desc": "tiles", "mininterval": 0})
        B.H(B(torch.rand(6, dtype=torch.complex128)))
    shown = capsys.readouterr().err
    assert "tiles: 100%" in shown and f"{len(B.plan().actions)}/{len(B.plan().actions)}" in shown
    with pytest.raises(TypeError, match="tqdm_kwargs must be a mapping of options, got True"):
        create_batched_linop(matrix(), BatchSpec({}), tqdm_kwargs=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["cpu", "sim:1"])
def test_the_result_may_be_written_to(device: str) -> None:
    A = matrix()
    with simulated(2):
        B = create_batched_linop(A, BatchSpec({"M": 2}, [device], "cpu"))
        x = torch.rand(6, dtype=torch.complex128, requires_grad=True)
        residual = B(x)
        residual -= 1
        (result,) = torch.autograd.grad(residual.abs().square().sum(), x)
        torch.testing.assert_close(result, 2 * A.H(A(x) - 1))


def test_a_gradient_comes_back_through_one_tile_that_moves_nothing() -> None:
    A = Sampling([torch.tensor(0)], [1]) @ Diagonal(torch.ones(1), ("Kx",))
    for linop in (create_batched_linop(A, BatchSpec({})), create_batched_linop(A, BatchSpec({})).H):
        x = torch.rand((linop.ishape and (1,)) or (), requires_grad=True)
        torch.autograd.backward(linop(x).sum())
        assert x.grad is not None and torch.equal(x.grad, torch.ones_like(x))


def test_weights_must_stay_until_the_gradient_was_computed() -> None:
    A = matrix()
    with simulated(2):
        B = create_batched_linop(A, BatchSpec({"M": 2}, ["sim:1"], "cpu"))
        x = torch.rand(6, dtype=torch.complex128, requires_grad=True)
        y = B(x).abs().sum()
        with torch.no_grad():
            A.weight.mul_(2)
        with pytest.raises(RuntimeError, match=r"weights must not change before the gradient"):
            torch.autograd.grad(y, x)


def test_copies_and_pickles_are_independent_and_equal() -> None:
    A = Dense(torch.rand(4, 8, dtype=torch.complex128), ("M", "N"))
    spec = [BatchSpec({"M": 3}, ["cpu", "meta"], "cpu"), BatchSpec({"N": 4})]
    B = create_batched_linop(A, spec)
    for other in (copy.deepcopy(B), pickle.loads(pickle.dumps(B))):
        assert repr(other) == repr(B)
        own = {id(weight) for weight in other.buffers()}
        assert len(own) == 1 and own.isdisjoint(map(id, A.buffers()))
        assert sum(copied(other).values()) == sum(copied(B).values()) == 8 * 16


def specs_on(devices: list[str]) -> list[BatchSpec | list[BatchSpec]]:
    return [BatchSpec({"C": 1}, devices, base) for base in devices] + [
        [BatchSpec({"C": 2}, devices, "cpu"), BatchSpec({"K": 2, "C": 1})]
    ]


def check_on(devices: list[str]) -> None:
    A = sense(trainable=True, n_coils=max(4, len(devices)))
    x = torch.rand(6, dtype=torch.complex128)
    for specs in specs_on(devices):
        first = specs if isinstance(specs, BatchSpec) else specs[0]
        base = first.base_device
        assert base is not None
        B = create_batched_linop(A, specs)
        with torch.no_grad():
            for result, wanted in ((B, A), (B.N, A.N)):
                y = result(x.to(base))
                assert y.device == base
                torch.testing.assert_close(y.cpu(), wanted(x))
                assert torch.equal(result(x.to(base)), y)
            torch.testing.assert_close(B.H(A(x).to(base)).cpu(), A.H(A(x)))
        gradients = []
        for linop, device in ((A, torch.device("cpu")), (B, base)):
            A.zero_grad()
            vector = x.clone().requires_grad_()
            torch.autograd.backward(linop.N(vector.to(device)).abs().pow(3).sum())
            gradients.append([vector.grad, *(weight.grad for weight in A.parameters())])
        for here, there in zip(*gradients, strict=True):
            assert here is not None and here.abs().max() > 0
            torch.testing.assert_close(there, here)
        with torch.no_grad():
            next(A.parameters()).mul_(2)
            torch.testing.assert_close(B(x.to(base)).cpu(), A(x))


def test_simulated_devices_compute_what_the_cpu_does() -> None:
    with simulated(2):
        check_on(["sim:1", "cpu", "sim:0"])


@pytest.mark.gpu
def test_a_gpu_computes_what_the_cpu_does() -> None:
    check_on(["cpu", "cuda:0"])
    check_on(["cuda:0", "cpu"])


@pytest.mark.multigpu
def test_two_gpus_compute_what_the_cpu_does() -> None:
    for devices in itertools.permutations(["cpu", "cuda:0", "cuda:1"]):
        check_on([*devices])


@pytest.mark.multigpu
def test_all_gpus_compute_what_the_cpu_does() -> None:
    check_on([f"cuda:{k}" for k in range(torch.cuda.device_count())])


@pytest.mark.parametrize(
    "base",
    [
        pytest.param("cpu", marks=pytest.mark.gpu),
        pytest.param("cuda:1", marks=pytest.mark.multigpu),
    ],
)
def test_gradients_come_back_across_given_streams_of_a_gpu(base: str) -> None:
    A = sense(trainable=True)
    x = torch.rand(6, dtype=torch.complex128, requires_grad=True)
    inputs = [x, *A.parameters()]
    wanted = torch.autograd.grad(A.N(A.H(A(x))).abs().sum(), inputs)
    specs = [DeviceSpec("cuda:0", torch.Stream("cuda:0"), torch.Stream("cuda:0")) for _ in range(2)]
    B = create_batched_linop(A, BatchSpec({"C": 1}, specs, base))
    for _ in range(10):
        result = torch.autograd.grad(B.N(B.H(B(x.to(base)))).abs().sum(), inputs)
        torch.testing.assert_close(result, wanted)
        with torch.no_grad():
            inputs[1].mul_(1)  # so that it is sent again


@pytest.mark.gpu
def test_a_gpu_holds_its_weights_once_and_the_work_of_one_tile() -> None:
    maps = torch.rand(16, 256, 256, dtype=torch.complex64)
    A = FFT(2, ("C",)) @ Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    x = torch.rand(256, 256, dtype=torch.complex64)
    spec = BatchSpec({"C": 1}, ["cuda:0"], "cpu")
    create_batched_linop(A, spec).N(x)  # libraries allocate their workspace once and keep it
    gc.collect()
    before = torch.cuda.memory_allocated()
    B = create_batched_linop(A, spec)
    assert torch.cuda.memory_allocated() - before == maps.nbytes
    torch.cuda.reset_peak_memory_stats()
    result = B.N(x)
    work = torch.cuda.max_memory_allocated() - before - maps.nbytes
    assert work <= 8 * maps[0].nbytes
    torch.testing.assert_close(result, A.N(x), rtol=1e-4, atol=1e-4)
    del B
    gc.collect()
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize(
    ("max_in_flight", "error", "message"),
    [
        (0, ValueError, "max_in_flight must be at least 1, got 0"),
        (2.0, TypeError, r"max_in_flight must be an integer, got 2\.0"),
        (True, TypeError, "max_in_flight must be an integer, got True"),
    ],
)
def test_a_window_must_be_a_positive_integer(
    max_in_flight: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"create_batched_linop: {message}"):
        create_batched_linop(matrix(), BatchSpec({"M": 1}), max_in_flight=max_in_flight)
    with pytest.raises(error, match=f"BatchedLinop: {message}"):
        BatchedLinop(one_part(matrix()), DeviceSpec("cpu"), max_in_flight)
    three = torch.tensor([3]).numpy()[0]
    B = create_batched_linop(matrix(), BatchSpec({"M": 1}, "meta", "cpu"), max_in_flight=three)
    assert B.plan().max_in_flight == 3


def test_what_is_no_operator_or_no_spec_is_refused() -> None:
    spec: Any = DeviceSpec("cpu")
    with pytest.raises(TypeError, match="BatchedLinop: tiles must be Tiles, got"):
        BatchedLinop(spec, spec)
    with pytest.raises(TypeError, match="BatchedLinop: base must be a DeviceSpec, got 'cpu'"):
        BatchedLinop(one_part(matrix()), "cpu")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="create_batched_linop: linop must be a NamedLinop, got"):
        create_batched_linop(None, BatchSpec({"N": 1}))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="batch_specs must be BatchSpecs, got"):
        create_batched_linop(Diagonal(torch.ones(2), ("N",)), "ab")  # type: ignore[arg-type]
