"""Interpolate with the table that it keeps: the values of one without, and never an old one."""

import copy
import math
import pickle
import threading
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from linops_core import Interpolate, NamedLinop
from linops_core._kept import Kept
from linops_core._kernels import _accumulate
from linops_core._kernels._interpolation import _gridding, _table
from linops_core._kernels._interpolation._table import InterpolationTable, Neighbours
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND

KERNELS = [("kaiser_bessel", None), ("linear", None), *(("spline", {"order": n}) for n in (2, 3))]


def points(*lengths: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 6 * torch.rand(lengths, dtype=torch.float64, generator=generator) - 1


def pair(locs: Tensor, *args: Any, **options: Any) -> tuple[Interpolate, Interpolate]:
    """Return an operator that keeps a table, and one that never does."""
    return Interpolate(locs, *args, **options), Interpolate(locs, *args, **options, table_budget=0)


def kept(linop: NamedLinop, dtype: torch.dtype = torch.float64) -> InterpolationTable | None:
    """Return the table, but not weights along each axis."""
    result = anything_kept(linop, dtype)
    return result if isinstance(result, InterpolationTable) else None


def anything_kept(
    linop: NamedLinop, dtype: torch.dtype = torch.float64
) -> InterpolationTable | Neighbours | None:
    result: InterpolationTable | Neighbours | None = vars(linop)["_table"]._made[1].get(dtype)
    return result


def nbytes(table: InterpolationTable | None) -> int:
    if table is None:
        return 0
    halves = [half for half in (table._by_point, table._by_node) if half is not None]
    return sum(tensor.untyped_storage().nbytes() for half in halves for tensor in half[:3])


class TestInterpolateWithTable(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Interpolate(points(2, 3, 2), [4, 3], (), width=3)


@pytest.mark.variant
class TestTileOfPointsWithTable(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = Interpolate(points(5, 2), [4, 3], (), width=2)
        return A.split(A, {ND("K"): slice(1, 4)})


@given(data=st.data())
def test_the_table_changes_no_value_and_no_dtype(data: st.DataObject) -> None:
    grid = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    lengths = data.draw(st.lists(st.integers(0, 4), max_size=2))
    kernel, params = data.draw(st.sampled_from(KERNELS))
    dtypes = st.sampled_from([torch.float32, torch.float64, torch.float16])
    A, B = pair(
        points(*lengths, len(grid)).to(data.draw(dtypes)), grid,
        width=data.draw(st.sampled_from([1, 2.0, 2.5, 4.0])), kernel=kernel, kernel_params=params,
        norm=data.draw(st.sampled_from([1, 2])),
        pad_mode=data.draw(st.sampled_from(["circular", "zeros"])),
    )  # fmt: skip
    of_input = [*{torch.int64, torch.float32, torch.float64, torch.complex64, torch.complex128}]
    dtype = data.draw(st.sampled_from(sorted(of_input, key=str)))
    batch = data.draw(st.lists(st.sampled_from([0, 1, 2, 9, 17]), max_size=1))
    for linop, other, side in ((A, B, grid), (A.H, B.H, lengths)):
        x = (10 * torch.randn([*batch, *side], dtype=torch.complex128)).to(dtype)
        x = x.conj() if data.draw(st.booleans()) else x
        y, expected = linop(x), other(x)
        assert y.dtype == expected.dtype and y.shape == expected.shape and y.is_contiguous()
        is_low = torch.float16 in (A.locs.dtype, dtype)
        tolerance = 1e-2 if is_low else 1e-4 if y.dtype.to_real() == torch.float32 else 1e-10
        torch.testing.assert_close(y, expected, rtol=tolerance, atol=10 * tolerance)
    assert kept(B) is None


test_the_table_changes_no_value_and_no_dtype = pytest.mark.filterwarnings(
    "ignore:Casting complex values to real"
)(test_the_table_changes_no_value_and_no_dtype)


@given(
    n_points=st.integers(0, 5),
    grid=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    width=st.sampled_from([1, 2.5, 3]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_the_table_takes_the_bytes_that_are_said_and_no_more_than_the_budget(
    n_points: int, grid: list[int], width: float, dtype: torch.dtype
) -> None:
    locs = points(n_points, len(grid)).to(dtype)
    A = Interpolate(locs, grid, (), width=width)
    said = A._nbytes_of_table(dtype)
    for budget in (said - 1, said) if said else (0,):
        A = Interpolate(locs, grid, (), width=width, table_budget=budget)
        A.N(torch.ones(grid, dtype=dtype))
        assert nbytes(kept(A, dtype)) == A._nbytes_of_table(dtype) <= budget
        assert A._nbytes_of_table(dtype) == (said if budget == said else 0)
    assert A.H.table_nbytes == A.table_nbytes == A._nbytes_of_table(torch.float32)
    assert bool(said) == bool(n_points)


@given(
    n_points=st.integers(1, 12),
    grid=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    width=st.sampled_from([1, 2.5, 3]),
    step=st.sampled_from([1, 7, 30, 200]),
    n_frames=st.sampled_from([None, 1, 3]),
)
def test_a_table_that_is_made_in_parts_is_that_made_at_once(
    n_points: int, grid: list[int], width: float, step: int, n_frames: int | None
) -> None:
    frames = () if n_frames is None else (n_frames,)
    locs = points(*frames, n_points, len(grid)).float()
    names = ("T", "K") if frames else ("K",)
    A, B = (Interpolate(locs, grid, names[:-1], names, width=width) for _ in range(2))
    x = torch.randn(*frames, *grid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_table, "_STEP", step)
        A.N(x)
    B.N(x)
    result, expected = (kept(linop, torch.float32) for linop in (A, B))
    assert result is not None and expected is not None
    for half in ("_by_point", "_by_node"):
        for ours, other in zip(getattr(result, half)[:3], getattr(expected, half)[:3], strict=True):
            assert ours.dtype == other.dtype and torch.equal(ours, other)
    columns, weights, *_ = result._by_point
    nodes, order = columns.sort(stable=True)
    by_node = result._by_node
    assert by_node is not None and torch.equal(by_node.weights, weights[order])
    assert torch.equal(by_node.columns, order.int() // result._n_weights)
    assert torch.equal(by_node.begins.diff(), nodes.bincount(minlength=result._n))


@given(
    n_points=st.integers(1, 12),
    grid=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    many=st.integers(2, 5),
    n_batches=st.sampled_from([1, 2, 40]),
)
def test_rows_that_are_added_in_parts_have_the_same_sums(
    n_points: int, grid: list[int], many: int, n_batches: int
) -> None:
    locs = points(n_points, len(grid))
    A, B = (Interpolate(locs, grid, width=2) for _ in range(2))
    y = torch.randn(n_batches, n_points, dtype=torch.complex128)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_table, "MANY", many)
        result = A.H(y)
    torch.testing.assert_close(result, B.H(y))
    table = kept(A)
    assert table is not None and table._by_node is not None
    rows: _table.SparseRows | None = table._by_node
    while rows is not None:
        assert rows.begins.diff().max() <= many
        rows = rows.pieces.added if rows.pieces else None


@given(
    n_points=st.integers(2, 12),
    grid=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    step=st.integers(1, 9),
    n_batches=st.sampled_from([1, 4]),
    n_frames=st.sampled_from([None, 3]),
    norm=st.sampled_from([1, 2]),
)
def test_weights_that_are_computed_in_steps_give_the_same_values_and_gradients(
    n_points: int,
    grid: list[int],
    step: int,
    n_batches: int,
    n_frames: int | None,
    norm: int,
) -> None:
    """Also where sums of many values are in double precision."""
    frames = () if n_frames is None else (n_frames,)
    names = ("T", "K") if frames else ("K",)
    locs = points(*frames, n_points, len(grid)).float()
    A = Interpolate(locs, grid, ("B", *names[:-1]), names, width=2, norm=norm, table_budget=0)
    x = torch.randn(n_batches, *frames, *grid, requires_grad=True)
    y = torch.randn(n_batches, *frames, n_points, requires_grad=True)

    def found() -> list[Tensor]:
        values = [A(x), A.H(y)]
        back = torch.autograd.grad((values[0] * y.detach()).sum(), x, create_graph=True)
        forth = torch.autograd.grad((values[1] * x.detach()).sum(), y)
        return [*values, *back, *forth]

    expected = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_gridding, "_STEP", step)
        patch.setattr(_accumulate, "MANY", 3)
        torch.testing.assert_close(found(), expected)


def test_weights_that_are_computed_in_steps_take_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_gridding, "_STEP", 20)
    monkeypatch.setattr(_accumulate, "_BINS", 16)
    x, A = torch.ones(6), Interpolate(points(500, 1).float(), [6], width=2, table_budget=0)
    y = A(x)
    for linop, given_ in ((A, x), (A.H, y)):
        with Storages() as made:
            result = linop(given_)
        own = {given_.data_ptr(), result.data_ptr(), A.locs.data_ptr()}
        sizes = [size for at, size in made.nbytes.items() if at not in own]
        # One number for each point, but not two: there are two neighbours.
        assert max(sizes) <= 500 * torch.int64.itemsize


@pytest.mark.parametrize("budget", [0, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_many_points_may_share_a_place(dtype: torch.dtype, budget: int | None) -> None:
    """Added one by one, 2^14 equal values are off by 2e-4, and 2^16 by 6e-4."""
    locs, y = torch.full((2**14, 1), 1.3), torch.full((2**14,), 0.1, dtype=dtype)
    A = Interpolate(locs, [4], width=2, table_budget=budget)
    exact = A.H(y.to(torch.complex128))
    assert (A.H(y) - exact).norm() < 5e-6 * exact.norm()
    x = torch.zeros(4, dtype=dtype, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.vdot(y, A(x)).real, x)
    assert (gradient - exact).norm() < 5e-6 * exact.norm()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64])
@pytest.mark.parametrize("budget", [0, None])
def test_locations_do_not_decide_the_dtype(dtype: torch.dtype, budget: int | None) -> None:
    locs = points(40, 2)
    A = Interpolate(locs, [6, 5], (), scale=(1.5, 1.0), width=2, table_budget=budget)
    x, y = torch.randn(6, 5).to(dtype), torch.randn(40).to(dtype)
    accuracy = 10 * torch.finfo(dtype).eps
    for linop, values in ((A, x), (A.H, y)):
        result, exact = linop(values), linop(values.to(torch.complex128))
        assert (result.dtype, exact.dtype) == (dtype, torch.complex128)
        largest = float(exact.abs().max())
        torch.testing.assert_close(result.to(exact.dtype), exact, rtol=0, atol=accuracy * largest)
    B = Interpolate(nn.Parameter(locs), [6, 5], ())
    B(x).abs().sum().backward()
    assert B.locs.grad is not None and B.locs.grad.dtype == torch.float64


@given(
    grid=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    width=st.sampled_from([1, 2.5, 3]),
    dtype=st.sampled_from([torch.float32, torch.complex128]),
)
def test_past_the_budget_of_a_table_weights_along_each_axis_are_kept(
    grid: list[int], width: float, dtype: torch.dtype
) -> None:
    locs, real = points(9, len(grid)), dtype.to_real()
    nbytes = 9 * len(grid) * math.ceil(width) * (8 + real.itemsize)
    whole = Interpolate(locs, grid, width=width)._nbytes_of_table(real)
    x, y = torch.randn(grid, dtype=dtype), torch.randn(9, dtype=dtype)
    B = Interpolate(locs, grid, width=width, table_budget=0)
    for budget in {nbytes - 1, nbytes, whole - 1} - {*range(whole, nbytes + 1)}:
        A = Interpolate(locs, grid, width=width, table_budget=budget)
        for _ in range(2):
            torch.testing.assert_close(A(x), B(x))
            torch.testing.assert_close(A.H(y), B.H(y))
        result = anything_kept(A, real)
        assert A._nbytes_of_table(real) == 0 and (result is not None) == (nbytes <= budget)
        if isinstance(result, Neighbours):
            assert sum(t.nbytes for t in (*result.positions, *result.weights)) <= nbytes
        A.locs.copy_(points(9, len(grid), seed=1))
        torch.testing.assert_close(A(x), B(x))  # B has the same locations
        locs.copy_(points(9, len(grid)))


def test_each_precision_that_is_used_has_a_table() -> None:
    A = Interpolate(points(5, 2), [4, 3], ())
    A(torch.ones(4, 3))
    assert kept(A) is None and nbytes(kept(A, torch.float32)) < A.table_nbytes
    single = kept(A, torch.float32)
    A.N(torch.ones(4, 3, dtype=torch.complex128))
    A.H(torch.ones(5, dtype=torch.complex64))
    assert nbytes(kept(A)) == A._nbytes_of_table(torch.float64)
    assert kept(A, torch.float32) is single and nbytes(single) == A.table_nbytes


def test_building_and_deriving_make_no_table_and_relatives_share_one() -> None:
    A = Interpolate(points(3, 2), [4, 3], ("C",))
    derived = [A.H, A.N, A.renamed({ND("K"): ND("P")}), A.split(A, {ND("C"): slice(0, 1)})]
    assert kept(A) is None
    A(torch.ones(2, 4, 3, dtype=torch.float64))
    made = kept(A)
    derived[1](torch.ones(2, 4, 3, dtype=torch.float64))
    derived[3](torch.ones(1, 4, 3, dtype=torch.float64))
    assert made is not None and kept(A) is made
    assert all(kept(derived[i]) is made for i in (0, 2, 3))


@pytest.mark.parametrize("change", ["write", "replace", "data", "cast"])
def test_the_table_follows_the_locations(change: str) -> None:
    A = Interpolate(points(5, 2), [4, 3], ())
    x, y = torch.randn(4, 3, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    tile = A.split(A, {ND("K"): slice(1, 4)})
    old = [A(x), A.H(y), tile(x), tile.H(y[1:4])]
    new = points(5, 2, seed=1)
    if change == "write":
        A.locs[2:].copy_(new[2:])
        new = A.locs.clone()
    elif change == "replace":
        A.locs = new
    elif change == "data":
        A.locs.data = new
    else:
        A.to(torch.float32)
        A.locs.copy_(new)
        new = A.locs.clone()
        x, y = x.float(), y.float()
    B = Interpolate(new, [4, 3], (), table_budget=0)
    part = B.split(B, {ND("K"): slice(1, 4)})
    results = [A(x), A.H(y), tile(x), tile.H(y[1:4])]
    expected = [B(x), B.H(y), part(x), part.H(y[1:4])]
    for before, value, wanted in zip(old, results, expected, strict=True):
        assert not torch.allclose(before.to(value.dtype), value)
        torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-5)
    assert nbytes(kept(A, x.dtype)) == A._nbytes_of_table(x.dtype) > 0


@settings(max_examples=settings().max_examples // 3)
@given(
    cuts=st.lists(st.integers(1, 11), min_size=1, max_size=3, unique=True),
    along=st.sampled_from(["K", "Kx"]),
    extra=st.integers(0, 4000),
)
def test_tiles_have_tables_of_their_own_and_share_the_budget(
    cuts: list[int], along: str, extra: int
) -> None:
    locs = points(12, 1)
    budget = Interpolate(locs, [12])._nbytes_of_table(torch.float64) + extra
    A, B = (Interpolate(locs, [12], (), table_budget=n) for n in (budget, 0))
    ends = [0, *sorted(cuts), 12]
    pieces = [slice(a, b) for a, b in pairwise(ends)]
    tiles, others = (linop.tiles_along(ND(along), pieces) for linop in (A, B))
    for tile, other in zip(tiles, others, strict=True):
        torch.testing.assert_close(tile.to_dense(), other.to_dense())
        torch.testing.assert_close(tile.H.to_dense(), other.H.to_dense())
        assert nbytes(kept(tile)) == cast(Interpolate, tile)._nbytes_of_table(torch.float64)
    assert sum(nbytes(kept(tile)) for tile in tiles) <= budget
    assert kept(A) is None
    assert not extra or along == "Kx" or any(map(kept, tiles)) or extra < 200


def test_tiles_of_one_place_share_a_table_that_is_freed_with_them() -> None:
    A, whole = Interpolate(points(6, 2), [4, 3], ()), {ND("K"): slice(0, 6)}
    windows = [{ND("K"): slice(0, 3)}, {ND("K"): slice(3, 6)}, {ND("Kx"): slice(0, 2)}]
    tiles = [A.split(A, window) for window in windows]
    again = [A.H.split(A.H, window).H for window in windows]
    for tile in tiles:
        tile.to_dense()
    made = [kept(tile) for tile in tiles]
    assert None not in made and len({*map(id, made)}) == 3
    assert [kept(tile) for tile in again] == made
    assert kept(A.split(A, whole)) is kept(A) is None
    result = weakref.ref(made[0])
    del tiles, again, tile, made
    assert result() is None


COPIES: dict[str, Callable[[NamedLinop], NamedLinop]] = {
    "shallow": copy.copy,
    "deep": copy.deepcopy,
    "pickle": lambda linop: pickle.loads(pickle.dumps(linop)),
    "with_weights": lambda linop: linop.with_weights(lambda w: w),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_begins_without_a_table_and_makes_its_own(way: str) -> None:
    A = Interpolate(points(3, 2), [4, 3], ())
    length, x = len(pickle.dumps(A)), torch.randn(4, 3, dtype=torch.float64)
    y = A.N(x)
    assert kept(A) is not None and len(pickle.dumps(A)) == length
    assert set(A.state_dict()) == {"locs"}
    other = COPIES[way](A)
    assert kept(other) is None
    torch.testing.assert_close(other.N(x), y)
    assert nbytes(kept(other)) == nbytes(kept(A)) > 0 and kept(other) is not kept(A)


def test_what_is_trained_or_not_counted_has_no_table() -> None:
    x = torch.ones(4, dtype=torch.float64)
    parameter = nn.Parameter(points(3, 1))
    with torch.inference_mode():
        uncounted = points(3, 1)
    trained = points(3, 1).requires_grad_()
    Interpolate(trained, [4])(x).sum().backward()
    trained.requires_grad_(False)  # an optimizer may still use the gradient that is there
    for locs in (parameter, uncounted, trained):
        A = Interpolate(locs, [4], ())
        with torch.no_grad():
            tile = A.split(A, {ND("K"): slice(1, 3)})
            A.N(x)
            tile(x)
        assert A.table_nbytes == tile.table_nbytes == 0
        assert kept(A) is None and kept(tile) is None
    parameter.requires_grad_(False)
    assert Interpolate(parameter, [4]).table_nbytes > 0


def test_two_threads_that_need_a_table_at_once_make_one() -> None:
    tables, locs, has_entered = Kept[InterpolationTable](), points(3, 1), threading.Event()
    made: list[InterpolationTable] = []

    def make() -> InterpolationTable:
        own = Interpolate(locs, [4]).neighbours(locs, slice(None), locs.dtype)
        neighbours = Neighbours(*own, 4, 4)
        made.append(InterpolationTable(lambda _: neighbours, 3, 4))
        if len(made) == 1:
            other.start()
            has_entered.wait(0.2)  # which comes to its end where the other one waits
        else:
            has_entered.set()
        return made[-1]

    other = threading.Thread(target=lambda: tables.get_or_make([locs], locs.dtype, make))
    table = tables.get_or_make([locs], locs.dtype, make)
    other.join()
    assert tables.get_or_make([locs], locs.dtype, make) is table
    assert len(made) == 1


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_derivatives_of_all_orders_are_right(dtype: torch.dtype) -> None:
    A = Interpolate(points(5, 2), [4, 3], ())
    for linop, lengths in ((A, (4, 3)), (A.H, (5,)), (A.N, (4, 3))):
        x = torch.randn(lengths, dtype=dtype, requires_grad=True)
        assert gradcheck(linop, x, check_forward_ad=True, fast_mode=True)
        assert gradgradcheck(lambda x, linop=linop: linop(x).square(), x, fast_mode=True)
    assert kept(A) is not None


def test_gradients_in_batches_are_the_rows_of_the_matrix() -> None:
    A = Interpolate(points(5, 1), [4])
    y = torch.randn(5, dtype=torch.float64, requires_grad=True)
    rows = torch.eye(4, dtype=torch.float64)
    (result,) = torch.autograd.grad(A.H(y), y, rows, is_grads_batched=True)
    torch.testing.assert_close(result, A.H(torch.eye(5, dtype=torch.float64)).T)


def test_gradients_are_those_of_the_locations_of_the_forward_pass() -> None:
    grids = [torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    v = torch.randn(5, dtype=torch.float64)
    expected = Interpolate(points(5, 1), [4], table_budget=0).H(v)
    A, B = pair(points(5, 1), [4])
    values = [linop(x) for linop, x in zip((A, B), grids, strict=True)]
    A.locs.add_(1)
    for y, x in zip(values, grids, strict=True):
        torch.testing.assert_close(torch.autograd.grad(y, x, v)[0], expected)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_forward_derivatives_to_locations_pass_the_table_by() -> None:
    locs, x = points(5, 1), torch.randn(4, dtype=torch.float64)
    results = []
    for linop in pair(locs, [4]):
        linop(x)
        with forward_ad.dual_level():
            linop.locs = forward_ad.make_dual(locs, torch.ones_like(locs))
            results.append(forward_ad.unpack_dual(linop(x)).tangent)
    torch.testing.assert_close(results[0], results[1])


def test_a_call_without_data_leaves_nothing_behind() -> None:
    x = torch.randn(4, 3, dtype=torch.float64)
    for is_warm in (False, True):
        A, B = pair(points(5, 2), [4, 3], ())
        if is_warm:
            A(x)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            assert A.N(mode.from_tensor(x)).shape == x.shape
        torch.testing.assert_close(A.N(x), B.N(x))


class Storages(TorchDispatchMode):
    """Notes the largest storage that an operation makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nbytes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for tensor in results if isinstance(results, tuple) else [results]:
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self.nbytes[storage.data_ptr()] = storage.nbytes()
        return results


def test_many_batches_take_the_memory_of_a_few_beside_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_table, "_COPY", 1)
    n, n_points = 40, 30
    A = Interpolate(points(n_points, 1).float(), [n], width=2)
    x, y = (
        torch.randn(64, n, dtype=torch.complex64),
        torch.randn(64, n_points, dtype=torch.complex64),
    )
    A.N(x)
    for linop, given_ in ((A, x), (A.H, y)):
        with Storages() as made:
            result = linop(given_)
        own = {given_.data_ptr(), result.data_ptr()}
        assert max(size for at, size in made.nbytes.items() if at not in own) <= 64 * max(
            n, n_points
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
def test_a_batch_behind_the_grid_has_the_same_values_there(dtype: torch.dtype) -> None:
    locs = points(6, 1).double()
    names: dict[str, Any] = {"width": 2, "dims": ("N",), "to": ("P",)}
    A = Interpolate(locs, [5], **names, shape=("N", "B"))
    x = torch.randn(5, 7, dtype=dtype)
    y = A(x)
    assert y.is_contiguous()
    same = Interpolate(locs, [5], **names, shape=("B", "N"))
    torch.testing.assert_close(y, same(x.mT).mT)
    torch.testing.assert_close(A.H(y), same.H(y.mT).mT)


@pytest.mark.parametrize("budget", [-1, 1.5, True])
def test_a_budget_that_is_no_number_of_bytes_is_refused(budget: Any) -> None:
    with pytest.raises(
        ValueError, match=r"Interpolate: table_budget must be .*, got (-1|1.5|True)"
    ):
        Interpolate(points(3, 1), [4], table_budget=budget)
