"""Planning: what is chosen fits, and is the least that does; nothing is allocated to find out.

C coils, M rows, N columns, K samples.
"""

import dataclasses
import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_core import (
    FFT,
    Add,
    Dense,
    Diagonal,
    Identity,
    Interpolate,
    NamedLinop,
    Repeat,
    Role,
    Sampling,
    SimpleLinop,
    SplitError,
    SumReduce,
)
from linops_core.testing.strategies import Known, trees
from linops_split import BatchPlan, Tiled, batch_linop, plan_batches
from linops_split._batch import cut_into_tiles
from linops_split._planning._peak import peak_nbytes
from linops_split._planning._plan_trial import Trial, share_empty_caches
from linops_split._planning._structure import Structures
from nameddim import ND, NamedShape

CPU = torch.device("cpu")


def coils(threaded: bool = False) -> NamedLinop:
    maps = torch.zeros(8, 16, 16, dtype=torch.complex64)
    grid = ("Nx", "Ny")
    terms = Dense(maps, ("C", *grid), grid, ("C", *grid))
    return FFT(2) @ (Add(terms, terms, threaded=True) if threaded else terms)


def matrix(dtype: torch.dtype = torch.complex128) -> Dense:
    return Dense(nn.Parameter(torch.rand(4, 6, dtype=dtype)), ("M", "N"))


WORKS = {
    "forward": lambda linop: linop,
    "adjoint": lambda linop: linop.H,
    "normal": lambda linop: linop.N,
}


def held(known: Known, batch_sizes: dict[ND, int], work: str) -> int:
    """Return what the work holds at a time, with data."""
    x = torch.rand(known.spaces.lengths(known.spaces.ishape), dtype=torch.complex128)
    return held_by(known.linop, x, batch_sizes, work)


def held_by(linop: NamedLinop, x: Tensor, batch_sizes: dict[ND, int], work: str) -> int:
    """Return what the work on x holds at a time in its first call, with empty caches."""
    first = linop.with_weights(lambda w: w)
    share_empty_caches(linop, first, {})
    run = WORKS[work](batch_linop(first, batch_sizes))
    with torch.no_grad():
        x = torch.rand_like(linop(x)) if work == "adjoint" else x
        return peak_nbytes(lambda: run(x)).get(CPU, 0)


@settings(max_examples=settings().max_examples // 3)  # each plans several times
@given(st.data())
def test_what_is_chosen_takes_what_was_predicted_and_is_the_least(data: st.DataObject) -> None:
    known = data.draw(trees())
    linop, work = known.linop, data.draw(st.sampled_from(sorted(WORKS)))
    assume(not any(getattr(part, "threaded", False) for part in linop.modules()))
    x = torch.empty(known.spaces.lengths(known.spaces.ishape), dtype=torch.complex128)
    uncut = plan_batches(linop, 2**40, work=work, like=x)
    assert uncut.batch_sizes == {} and uncut.n_tiles == 1
    assert uncut.peak == uncut.uncut_peak == held(known, {}, work)
    budget = data.draw(st.integers(0, uncut.peak))
    try:
        plan = plan_batches(linop, budget, work=work, like=x)
    except SplitError as error:
        smallest = smallest_budget(error)
        assert budget < smallest <= uncut.peak
        assert plan_batches(linop, smallest, work=work, like=x).peak <= smallest
        with pytest.raises(SplitError, match=f"at least {smallest} bytes"):
            plan_batches(linop, smallest - 1, work=work, like=x)
        return
    assert plan.peak == held(known, plan.batch_sizes, work) <= budget
    for dim, count in plan.counts.items():
        size = linop.size(dim) or 0
        assert count == -(-size // plan.batch_sizes[dim]) > 1
        longer = {**plan.batch_sizes, dim: -(-size // (count - 1))}
        assert held(known, longer, work) > budget


@settings(max_examples=settings().max_examples // 3)
@given(st.data())
def test_equal_tiles_are_counted_as_if_all_were_run(data: st.DataObject) -> None:
    known = data.draw(trees())
    work, sizes = data.draw(st.sampled_from(sorted(WORKS))), {}
    for dim in sorted(known.linop.dims, key=str):
        if known.linop.role(dim) not in (None, Role.OPAQUE) and (known.linop.size(dim) or 0) > 1:
            sizes[dim] = data.draw(st.integers(1, 2))
    x = torch.empty(known.spaces.lengths(known.spaces.ishape), dtype=torch.complex128)
    result = Trial(known.linop, x, CPU, [work], None).peak(sizes)
    assert result == held(known, sizes, work)


MASK = Sampling((torch.tensor([1, 3, 4]),), (5,), ("K",), ("A",), batch_shape=())
MASKED = {
    "mask": MASK.N,
    "renamed": Identity(("A",), ("B",)) @ MASK.N,
    "surrounded": Diagonal(torch.rand(5) + 0j, ("A",))
    @ MASK.N
    @ Dense(torch.rand(5, 2) + 0j, "AN"),
    "summed": MASK.N + Diagonal(torch.rand(5) + 0j, ("A",)),
    "from samples": MASK.H,
}


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("A", MASKED.values(), ids=MASKED)
def test_masks_are_counted_whether_or_not_another_call_has_made_them(
    A: NamedLinop, work: str
) -> None:
    x = torch.rand({"K": 3, "N": 2}.get(A.ishape[-1].name, 5), dtype=torch.complex128)
    cuttable = [dim for dim in sorted(A.dims, key=str) if A.role(dim) is not Role.OPAQUE]
    for sizes in [*({dim: 1} for dim in cuttable), dict.fromkeys(cuttable, 2)]:
        result = Trial(A, x, CPU, [work], None).peak(sizes)
        assert result == held_by(A, x, sizes, work)  # which calls A
        assert result == Trial(A, x, CPU, [work], None).peak(sizes)


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_sums_over_neighbours_are_counted_to_the_byte(dtype: torch.dtype, work: str) -> None:
    A = 2 * Interpolate(torch.full((2,), 0.75), (1, 1), (), (), ("A", "B"), width=1.0)
    A = A @ Dense(torch.rand(3, 1, dtype=dtype), "CB", ("A", "C"), ("A", "B"))
    x = torch.rand(1, 3, dtype=dtype)
    for sizes in ({}, {ND("C"): 1}, {ND("C"): 2}):
        assert Trial(A, x, CPU, [work], None).peak(sizes) == held_by(A, x, sizes, work)


@pytest.mark.parametrize("sizes", [{}, {"C": 1}, {"K": 200}])
@pytest.mark.parametrize("work", ["forward", "adjoint"])
def test_many_samples_of_a_point_are_counted_to_the_byte(work: str, sizes: dict[str, int]) -> None:
    """They are added in double precision, which only values of indices tell."""
    A = Sampling((torch.zeros(600, dtype=torch.int64),), (5,), ("K",), ("N",), batch_shape=("C",))
    x, batches = torch.rand(4, 5, dtype=torch.complex64), {ND(dim): n for dim, n in sizes.items()}
    run, result = (
        WORKS[work](batch_linop(A, batches, sizes={"C": 4})),
        Trial(A, x, CPU, [work], {ND("C"): 4}),
    )
    x = A(x) if work == "adjoint" else x
    run(x)  # which counts the samples
    assert result.peak(batches) == peak_nbytes(lambda: run(x))[CPU]


def coils_of_frames() -> NamedLinop:
    locs = 8 * torch.rand(5, 12, 2)
    points = Interpolate(locs, (8, 8), ("C", "T"), ("T", "K"))
    maps = torch.rand(4, 8, 8, dtype=torch.complex64)
    grid = ("T", "Kx", "Ky")
    return points @ Dense(maps, ("C", "Kx", "Ky"), grid, ("C", *grid))


@pytest.mark.parametrize("sizes", [{"T": 1}, {"C": 1, "T": 2}, {"T": 2, "C": 3, "K": 5}])
@pytest.mark.parametrize("work", WORKS)
def test_tiles_that_share_tables_are_counted_as_if_all_were_run(
    work: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, batches = torch.empty(5, 8, 8, dtype=torch.complex64), {ND(d): n for d, n in sizes.items()}
    A = coils_of_frames()
    result = Trial(A, x, CPU, [work], None).peak(batches)
    assert Trial(batch_linop(A, batches), x, CPU, [work], None).peak({}) == result
    monkeypatch.setattr("linops_split._planning._peak.choosing_steps", lambda choose: nullcontext())
    assert Trial(A, x, CPU, [work], None).peak(batches) == result


def test_tiles_without_data_share_the_weights_that_the_tiles_share() -> None:
    x = torch.empty(6, dtype=torch.complex128)
    cut = batch_linop(matrix() + matrix(), {"M": 2, "N": 3})
    read, made = list[tuple[int, torch.Size]](), list[Tensor]()
    cut.with_weights(lambda w: read.append((w.data_ptr(), w.shape)) or w)  # type: ignore[func-returns-value]
    without_data = Trial(cut, x, CPU, ["forward"], None)._linop
    without_data.with_weights(lambda w: made.append(w) or w)  # type: ignore[func-returns-value]
    assert len(read) == len(made) and len(set(read)) == 8
    assert [read.index(each) for each in read] == [[*map(id, made)].index(id(w)) for w in made]


def test_tiles_that_take_the_same_are_made_once_unless_each_keeps_a_table() -> None:
    batches = {"C": 1, "T": 2}
    tiled = cut_into_tiles(coils_of_frames(), batches, same=Structures().first_of)
    assert isinstance(tiled, Tiled) and len(tiled) == 4 * 3
    assert len({id(linop) for linop in tiled.linops}) == 3  # of the frames
    each = cut_into_tiles(coils_of_frames(), batches)
    assert isinstance(each, Tiled) and len({id(linop) for linop in each.linops}) == 12


@dataclasses.dataclass(frozen=True)
class Settings:
    """Attributes that say that they can be hashed, but cannot."""

    factors: dict[str, int]


class Scaled(Diagonal):
    """An operator with settings."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__(weight, ("C", "N"))
        self.settings = Settings({"a": 2})


def test_operators_with_settings_can_be_cut() -> None:
    D = Scaled(torch.zeros(4, 3, dtype=torch.complex64))
    A = D @ D
    assert plan_batches(A, plan_batches(A, 2**20).peak - 1, ["C"]).n_tiles > 1


def test_a_refusal_tries_ever_finer_cuts_and_names_a_budget_that_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried, peak = list[dict[str, int]](), Trial.peak

    def watched(self: Trial, cut: dict[ND, int]) -> int:
        tried.append({str(dim): length for dim, length in cut.items()})
        return peak(self, cut)

    monkeypatch.setattr(Trial, "peak", watched)
    A = coils_of_frames()
    with pytest.raises(SplitError) as refused:
        plan_batches(A, 0, work="normal", dtype=torch.complex64)
    assert tried == [{}, {"C": 1}, {"C": 1, "T": 1}, {"C": 1, "T": 1, "K": 4}]
    smallest = smallest_budget(refused.value)
    assert plan_batches(A, smallest, work="normal", dtype=torch.complex64).peak <= smallest


def smallest_budget(error: SplitError) -> int:
    result = re.search(r"must be at least (\d+) bytes", str(error))
    assert result is not None
    return int(result[1])


def test_a_dimension_that_saves_nothing_is_not_cut() -> None:
    coils = ("C", "Nx", "Ny")
    A = FFT(2) @ Dense(torch.rand(8, 16, 16, 16) + 0j, (*coils, "R"), ("R",), coils)
    plan = plan_batches(A, 25_000, work="forward", dims=["R", "C"])
    assert set(plan.batch_sizes) == {ND("C")}


def test_all_works_have_to_fit() -> None:
    A = matrix()
    each = [plan_batches(A, 2**30, work=work).peak for work in ("forward", "adjoint")]
    assert len(set(each)) == 2
    for work in ("forward", "adjoint"), ("adjoint", "forward"):
        assert plan_batches(A, 2**30, work=work).peak == max(each)
    assert plan_batches(A, 2**30).work == ("forward", "adjoint")


def test_only_the_dimensions_that_are_given_are_cut() -> None:
    A = Dense(torch.zeros(4, 4, 4, dtype=torch.complex64), ("C", "M", "N"), ("C", "N"), ("C", "M"))
    for dims in (["C"], ["M", "C"], [ND("N")]):
        with pytest.raises(SplitError) as refused:
            plan_batches(A, 128, dims, work="adjoint")
        budget = smallest_budget(refused.value)
        plan = plan_batches(A, budget, dims, work="adjoint")
        assert plan.batch_sizes and set(plan.batch_sizes) <= set(dims)
        with pytest.raises(SplitError, match=re.escape(f"along ({', '.join(dims)}), got ")):
            plan_batches(A, budget - 1, dims, work="adjoint")


def test_without_dimensions_nothing_is_cut() -> None:
    assert plan_batches(matrix(), 2**30, ()).batch_sizes == {}
    with pytest.raises(SplitError, match=r"tiles along \(\), got 96"):
        plan_batches(matrix(), 96, ())


def test_a_plan_says_what_was_chosen_and_why() -> None:
    plan = plan_batches(coils(), 9000, work="adjoint")
    assert plan == BatchPlan({ND("C"): 1}, 8192, 9000, 49152, {ND("C"): 8}, CPU, ("adjoint",))
    assert str(plan) == (
        "cut C into 8 tiles of 1: adjoint takes 8.0 KiB of 8.8 KiB on cpu; uncut 48.0 KiB"
    )
    plan = plan_batches(coils(), 2**30)
    assert str(plan) == "uncut: forward and adjoint take 48.0 KiB of 1.0 GiB on cpu"


def test_nothing_is_allocated_and_no_value_is_read() -> None:
    size = 10**6
    matrix = torch.zeros(1, dtype=torch.complex64).expand(size, size)  # of 8 TB
    A = Dense(matrix, ("M", "N"))
    plan = plan_batches(A, 2**60, work="forward")
    assert plan.peak == 2 * 8 * size  # a long sum is added in parts
    weights = torch.empty(50, 10**5, 10**5, dtype=torch.complex64, device="meta")
    B = FFT(2) @ Diagonal(weights, ("C", "Nx", "Ny"))
    plan = plan_batches(B, 9 * 10**12, work="forward")
    assert (plan.device.type, plan.batch_sizes) == ("meta", {ND("C"): 17})


def test_the_operator_stays_as_it_is() -> None:
    A = matrix()
    adjoint, names = A.H, list(vars(A))
    plan_batches(A, 2**30, work=("forward", "adjoint", "normal"))
    assert isinstance(A.weight, nn.Parameter) and A.H is adjoint and list(vars(A)) == names
    assert A(torch.ones(6, dtype=torch.complex128)).requires_grad


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_plans_are_the_same_in_all_modes(
    mode: Callable[[], AbstractContextManager[None]],
) -> None:
    expected = plan_batches(coils(), 22000)
    with mode():
        assert plan_batches(coils(), 22000) == expected


@pytest.mark.parametrize("kind", ["real", "meta", "fake"])
def test_the_input_may_be_given_with_or_without_data(kind: str) -> None:
    x = torch.zeros(3, 16, 16, dtype=torch.complex128)
    like = {"real": x, "meta": x.to("meta"), "fake": FakeTensorMode().from_tensor(x)}[kind]
    assert plan_batches(FFT(2), 2**30, like=like).peak == x.nbytes
    assert plan_batches(FFT(2), 2**30, like=like.mT).peak == x.nbytes


def test_the_input_may_be_given_by_sizes() -> None:
    A = FFT(1, batch_shape=("B",))
    plan = plan_batches(A, 2**30, sizes={"B": 3, "Nx": 5}, dtype=torch.complex128)
    assert plan.peak == 3 * 5 * 16


def test_dimensions_whose_size_is_given_are_cut() -> None:
    A, sizes = FFT(1, batch_shape=("B",)) @ FFT(1, batch_shape=("B",)).H, {"B": 8, "Kx": 5}
    A = A @ Diagonal(torch.zeros(5, dtype=torch.complex64), ("B", "Kx"), weight_shape=("Kx",))
    uncut = plan_batches(A, 2**30, sizes=sizes).peak
    for dims in (None, ["B"]):
        plan = plan_batches(A, uncut - 1, dims, sizes=sizes)
        assert set(plan.counts) == {"B"}
        batch_linop(A, plan.batch_sizes, sizes=sizes)(torch.zeros(8, 5))
        like = torch.empty(8, 5, dtype=torch.complex64, device="meta")
        assert plan_batches(A, uncut - 1, dims, like=like) == plan


def test_the_dtype_is_that_of_complex_weights() -> None:
    D = Diagonal(torch.zeros(4, dtype=torch.complex128), ("N",))
    E = Diagonal(torch.zeros(4, dtype=torch.complex64), ("N",))
    assert plan_batches(D @ E, 2**30, work="forward").peak == 2 * 64


def test_fake_weights_can_be_planned() -> None:
    with FakeTensorMode():
        A = Diagonal(torch.zeros(4, dtype=torch.complex128), ("N",))
    assert plan_batches(A, 2**30, work="forward").peak == 64


def test_functions_that_hold_tensors_can_be_planned() -> None:
    w = torch.zeros(3, 4)
    A = SimpleLinop(lambda x: w[1:].sum(0) * x, lambda y: w[1:].sum(0) * y, ishape=("N",))
    result = plan_batches(A, 2**30, sizes={"N": 4}, dtype=torch.float32)
    assert result.peak == 32


def test_without_a_budget_it_is_what_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  9 kB\nMemAvailable:   21 kB\nHugePages_Total:       0\n")
    monkeypatch.setattr("linops_split._planning._plan_budget._MEMINFO", meminfo)
    for memory in (None, CPU):
        assert plan_batches(coils(), memory, work="adjoint").budget == 21 * 1024
    monkeypatch.setattr("linops_split._planning._plan_budget._MEMINFO", tmp_path / "none")
    with pytest.raises(
        ValueError, match="must be given in bytes for a device whose free memory is not known"
    ):
        plan_batches(coils())


def test_on_an_accelerator_what_torch_holds_without_use_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = torch.device("meta")
    for name, value in {
        "current_accelerator": device,
        "get_memory_info": (1000, 5000),
        "memory_reserved": 300,
        "memory_allocated": 200,
    }.items():
        monkeypatch.setattr(torch.accelerator, name, lambda *_, value=value: value)
    A = Diagonal(torch.empty(4, device=device, dtype=torch.complex64), ("N",))
    assert plan_batches(A, device).budget == 1100


class Reads(NamedLinop):
    """An operator whose work depends on the values of its input."""

    def __init__(self) -> None:
        super().__init__(NamedShape(("N",)))

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        return x / x.abs().max().item()

    adj_fn = fn


class Moves(Reads):
    """An operator that works on another device."""

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        return x.to("meta") + 1

    adj_fn = fn


X = torch.zeros(4, dtype=torch.complex64)
TWO_DEVICES = Diagonal(X, ("N",)) @ Diagonal(X.to("meta"), ("N",))


@pytest.mark.parametrize(
    ("linop", "arguments", "message"),
    [
        (matrix(), {"memory": -1}, "memory must be finite and must not be negative, got -1"),
        (matrix(), {"memory": math.inf}, "memory must be finite and must not be negative, got inf"),
        (matrix(), {"memory": torch.device("meta")}, "must be the operator's device, cpu, got m"),
        (matrix(), {"max_tiles": 0}, "max_tiles must be a positive integer, got 0"),
        (matrix(), {"max_tiles": True}, "max_tiles must be a positive integer, got True"),
        (matrix(), {"work": "backward"}, "work must be one or several of .*, got 'backward'"),
        (matrix(), {"work": ()}, r"work must be one or several of .*, got \(\)"),
        (matrix(), {"work": 3}, "work must be one or several of .*, got 3"),
        (
            matrix(),
            {"work": ["normal", []]},
            r"work must be one or several of .*, got \['normal', \[\]\]",
        ),
        (matrix(), {"sizes": {"N": -6}}, "the size of N must be an integer, at least 0, got -6"),
        (matrix(), {"sizes": {"N": 2.0}}, r"N must be an integer, at least 0, got 2\.0"),
        (matrix(), {"dims": ["Q"]}, r"one of \['M', 'N'\], got Q"),
        (FFT(1), {"dims": ["Nx"]}, "Nx cannot be split"),
        (matrix(torch.float64), {}, "the dtype of the input must be known .* got neither"),
        (matrix(), {"like": X, "dtype": X.dtype}, "either like, or sizes and dtype, got both"),
        (matrix(), {"sizes": {"M": 4}}, r"sizes must be of dimensions of the input, got \['M'\]"),
        (matrix(), {"sizes": {"N": 5}}, "N must have size 6, got 5"),
        (matrix(), {"like": X}, "N must have size 6, got 4"),
        (
            FFT(1),
            {},
            r"the input must be known; give like, got none for \(\.\.\., Nx\); .*_shape=\(\)",
        ),
        (Identity(("N",)), {}, r"must be known; give sizes or like, got none for \(N\)"),
        (coils(threaded=True), {}, r"Add \(Nx, Ny\) -> .* must not use threads.*got threaded=True"),
        (
            Diagonal(X, ("N",)) @ Reads(),
            {"sizes": {"N": 4}},
            r"Reads \(N\) -> \(N\): .* must run on tensors without values",
        ),
        (Reads(), {"like": X}, r"Reads \(N\) -> \(N\): .* must run on tensors without values"),
        (
            Moves(),
            {"like": X},
            "must be and work on one device.* got cpu, meta; plan the operator b",
        ),
        (TWO_DEVICES, {}, "must be and work on one device.* got cpu, meta; plan the operator b"),
        (
            Diagonal(X.to("meta"), ("N",)),
            {"like": X},
            "like must be on the operator's device, meta, got cpu",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(
    linop: NamedLinop, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plan_batches(linop, **{"memory": 2**30, **arguments})  # type: ignore[arg-type] # any


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"like": [1.0]}, r"plan_batches: like must be a tensor, got \[1\.0\]"),
        ({"dtype": "complex64"}, "plan_batches: dtype must be a torch.dtype, got 'complex64'"),
        ({"dims": "MN"}, "plan_batches: dims must be a sequence of dimensions, got 'MN'"),
        ({"dims": 3}, "plan_batches: dims must be a sequence of dimensions, got 3"),
        ({"sizes": [6]}, r"Dense \(N\) -> \(M\): sizes must be a mapping of dimension to size"),
    ],
)
def test_what_is_of_another_type_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        plan_batches(matrix(), 2**30, **arguments)


def test_what_is_no_operator_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a NamedLinop, got <class 'str'>"):
        plan_batches("A", 2**30)  # type: ignore[arg-type] # that is the mistake


@pytest.mark.parametrize("memory", [True, [1], 1j])
def test_memory_must_be_bytes_or_a_device(memory: object) -> None:
    with pytest.raises(TypeError, match=r"must be a number of bytes, text such as '1.5 GiB', or a"):
        plan_batches(matrix(), memory)  # type: ignore[arg-type] # that is the mistake


@pytest.mark.parametrize(
    ("memory", "budget"),
    [
        (200e6, 200_000_000),
        ("200 MB", 200_000_000),
        ("1.5 GiB", 3 * 2**29),
        ("0.3kB", 300),
        (" 7 KiB ", 7 * 1024),
        ("512 B", 512),
        ("2 TB", 2 * 10**12),
        ("1e5", 100_000),
        ("1.5gib", 3 * 2**29),
        ("4000 b", 4000),
    ],
)
def test_budgets_may_be_text_or_floats(memory: float | str, budget: int) -> None:
    assert plan_batches(matrix(), memory).budget == budget


@pytest.mark.parametrize(
    "memory", ["GiB", "-1 GB", "1 iB", "1.5.2 MB", "3 PB", "", "1e", "2e-3", "1e999 B"]
)
def test_text_that_is_no_budget_is_refused(memory: str) -> None:
    with pytest.raises(ValueError, match=r"must be a number, alone or with B, kB, .*, got '"):
        plan_batches(matrix(), memory)


def test_a_long_search_shows_its_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_batches(matrix(), 2**30)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("linops_split._planning._plan._QUIET_S", 0.0)
    plan_batches(matrix(), 2**30)
    assert "plan_batches" in capsys.readouterr().err


def test_numpy_integers_are_integers() -> None:
    memory = torch.tensor([2**30]).numpy()[0]
    assert (
        type(plan_batches(matrix(), memory, max_tiles=torch.ones(1).int().numpy()[0]).budget) is int
    )


def test_a_plan_is_a_table_of_what_is_cut() -> None:
    A = Dense(torch.randn(8, 64), ("C", "N"), ("N",), ("C",))
    plan = plan_batches(A, 2**20, dtype=torch.float32)
    assert f'<div style="padding:2px 10px">{plan}</div>' in plan._repr_html_()
    cut = dataclasses.replace(plan, batch_sizes={ND("C"): 2}, counts={ND("C"): 4})
    texts = re.findall("<td[^>]*>([^<]*)</td>", cut._repr_html_())
    assert texts == ["C", "4", "2"]
    assert batch_linop(A, {"C": 4})._repr_html_().count("<tr>") == 3  # the head, A, the first tile


def test_a_result_that_repeats_elements_takes_their_bytes() -> None:
    A = Repeat({"N": 4}, (), ("N",)) @ SumReduce(("N",), ())
    x = torch.empty(4, dtype=torch.float64)
    peak = plan_batches(A, 2**40, work="forward", like=x).peak
    assert plan_batches(A, peak, work="forward", like=x).peak == peak <= x.nbytes
