"""What finufft computes within a NUFFT; `witnesses` has it beside one."""

import copy
import gc
import math
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.fx.experimental.proxy_tensor import make_fx

from linops_core import NamedLinop, SplitError
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_imaging import NUFFT
from linops_imaging._non_uniform import _finufft, _finufft_function
from linops_imaging._non_uniform._finufft_plan import (
    ACCURACY,
    PlanPair,
    PlanPrecision,
    fastest_plan_precision,
    library_for,
)
from nameddim import ND

finufft = pytest.importorskip("finufft")

LOCS = torch.zeros(3, 2)


def locations(*lengths: int, sizes: Sequence[int], seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(*lengths, len(sizes), dtype=torch.float64, generator=generator) - 0.5
    return unit * torch.tensor(sizes, dtype=torch.float64)


def matrix(locs: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the matrix of the exact sum, (points, pixels)."""
    result = torch.ones(len(locs), 1, dtype=torch.complex128)
    for n, at in zip(sizes, locs.double().unbind(-1), strict=True):
        r = torch.arange(n) - n // 2
        axis = torch.exp(-2j * math.pi / n * at.unsqueeze(1) * r) / math.sqrt(n)
        result = (result.unsqueeze(2) * axis.unsqueeze(1)).flatten(1)
    return result


@pytest.mark.variant
class TestFinufft(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        locs = nn.Parameter(locations(2, 2, 2, sizes=(3, 2)))
        own, batch = ("T", "S", "R"), ("C", "T")
        return NUFFT(locs, (3, 2), own, batch_shape=batch, method="finufft", tol=1e-10)

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.parametrize("sizes", [(5,), (5, 4), (3, 4, 5)])
def test_it_is_the_matrix_of_the_exact_sum(sizes: tuple[int, ...]) -> None:
    locs = locations(6, sizes=sizes)
    A = NUFFT(locs, sizes, ("K",), batch_shape=(), method="finufft", tol=1e-9)
    expected = matrix(locs, sizes)
    torch.testing.assert_close(A.to_dense(), expected, atol=1e-8, rtol=0)
    torch.testing.assert_close(A.H.to_dense(), expected.mH, atol=1e-8, rtol=0)
    dottest(A, rtol=1e-6)


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", [(64,), (9, 1), (24, 20), (4, 4, 4), (12, 12, 12)])
@pytest.mark.parametrize("tol", [6e-1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 5e-12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_entry_is_off_by_more_than_tol(
    sizes: tuple[int, ...], tol: float, dtype: torch.dtype
) -> None:
    locs = locations(20, sizes=sizes).to(dtype)
    locs[0] = torch.tensor(sizes) / 2
    if tol < 1e-6 and dtype is torch.float32:
        return
    A = NUFFT(locs, sizes, ("K",), batch_shape=(), method="finufft", tol=tol)
    result = A.to_dense(dtype=dtype.to_complex())
    assert (result - matrix(locs, sizes)).abs().max() * math.sqrt(math.prod(sizes)) <= tol


@pytest.mark.parametrize("n_axes", [1, 2, 3])
def test_the_library_makes_the_widths_that_are_asked_for(
    n_axes: int, capfd: pytest.CaptureFixture[str]
) -> None:
    for upsampling, width, _ in ACCURACY:
        way = PlanPrecision(torch.complex128, upsampling, width)
        finufft.Plan(2, (8,) * n_axes, eps=way.eps(n_axes), upsampfac=upsampling, debug=1)
        assert f"sigma={upsampling:g}: chose ns={width} " in capfd.readouterr().out


@pytest.mark.each_value
@pytest.mark.parametrize("method", ["finufft", "table", "interpolate"])
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("sizes", [(40,), (24, 20), (12, 12, 12)])
def test_the_adjoint_is_matched(sizes: tuple[int, ...], n_threads: int, method: str) -> None:
    """With the library's own choice of upsampling, entries differ by 4e-2."""
    threads, locs = torch.get_num_threads(), locations(200, sizes=sizes)
    try:
        torch.set_num_threads(n_threads)
        for tol in (1e-1, 1e-3, 1e-5, 1e-8, 1e-11):
            A = NUFFT(locs, sizes, ("K",), batch_shape=(), method=method, tol=tol)
            x = torch.randn(math.prod(sizes), dtype=torch.complex128)
            y = torch.randn(200, dtype=torch.complex128)
            for dtype, bound in ((torch.complex64, 2e-6), (torch.complex128, 1e-13)):
                z = A(x.reshape(sizes).to(dtype)).to(y.dtype)
                back = A.H(y.to(dtype)).to(y.dtype)
                gap = torch.vdot(y, z) - torch.vdot(back.flatten(), x)
                assert gap.abs() <= bound * y.norm() * z.norm()
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("method", ["finufft", "table", "interpolate"])
def test_the_result_is_the_same_for_any_number_of_threads(method: str) -> None:
    """The library's own choice of upsampling depends on them."""
    sizes, threads, result = (12, 12, 12), torch.get_num_threads(), []
    locs, x = locations(200, sizes=sizes), torch.randn(3, 12, 12, 12, dtype=torch.complex128)
    A = NUFFT(locs, sizes, ("K",), method=method, tol=1e-2)
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            result.append((A(x), A.H(A(x))))
    finally:
        torch.set_num_threads(threads)
    for others in result[1:]:
        torch.testing.assert_close(others, result[0], rtol=1e-12, atol=1e-12)


def test_a_small_tol_is_kept_where_single_precision_does_not() -> None:
    """Angles in single precision alone would be wrong by 5e-3 here."""
    n, at = 2**16, torch.tensor([[-1.0], [0.77], [0.99]])
    locs = at * n / 2
    A = NUFFT(locs, (n,), ("K",), method="finufft", tol=1e-6)
    impulse = torch.zeros(2, n)
    impulse[0, 0] = impulse[1, -1] = math.sqrt(n)
    turns = locs.double() / n * torch.tensor([-n // 2, n // 2 - 1])
    expected = torch.exp(-2j * math.pi * (turns - turns.round())).T
    y = A(impulse)
    assert y.dtype is torch.complex64
    torch.testing.assert_close(y, expected.to(y.dtype), atol=1e-6, rtol=0)


@pytest.mark.parametrize("method", ["finufft", "table", "interpolate"])
@pytest.mark.parametrize("sizes", [(20,), (40, 6)])
def test_tol_is_kept_where_many_locations_are_at_one_place(
    method: str, sizes: tuple[int, ...]
) -> None:
    """As the centre of radial spokes. Values that are added one by one are off by 1e-2 here."""
    n, locs = 2**16, torch.tensor([[0.3, 2.4]])[:, : len(sizes)]
    y = torch.full((n,), 0.1, dtype=torch.complex64)
    A = NUFFT(locs.expand(n, -1).clone(), sizes, ("K",), method=method, tol=1e-3)
    exact = (matrix(locs, sizes).conj() * y.to(torch.complex128).sum()).reshape(sizes)
    result = A.H(y)
    assert result.dtype == y.dtype and (result - exact).abs().max() < 1e-3 * exact.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_tol_that_cannot_be_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=r"NUFFT: tol must be at least 1.2e-12"):
        NUFFT(LOCS.to(dtype), (4, 4), ("K",), method="finufft", tol=1e-12)
    NUFFT(LOCS.to(dtype), (4, 4), ("K",), method="finufft", tol=1.3e-12)
    wrong: list[tuple[Any, type[Exception]]] = [
        ("1e-3", TypeError),
        (True, TypeError),
        (float("nan"), ValueError),
    ]
    for tol, error in wrong:
        with pytest.raises(error, match=r"NUFFT: tol must be "):
            NUFFT(LOCS.to(dtype), (4, 4), ("K",), tol=tol)


def test_frames_tiles_gradients_and_other_precisions() -> None:
    sizes = (5, 4)
    locs = locations(2, 6, sizes=sizes)
    A, B = (
        NUFFT(locs, sizes, ("T", "K"), batch_shape=("C", "T"), method=method, tol=1e-6)
        for method in ("finufft", "auto")
    )
    x = torch.randn(3, 2, *sizes, dtype=torch.complex128, requires_grad=True)
    torch.testing.assert_close(A(x), B(x), atol=1e-5, rtol=0)
    result, expected = (
        torch.autograd.grad(linop(x).abs().square().sum(), x)[0] for linop in (A, B)
    )
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(A.N(x), B.N(x), atol=1e-5, rtol=0)
    part = A.split(A, {ND("T"): slice(1, 2), ND("K"): slice(2, 5), ND("C"): slice(0, 2)})
    torch.testing.assert_close(part(x[:2, 1:]), A(x)[:2, 1:, 2:5], atol=1e-9, rtol=0)
    lazy = x[:1].conj()
    torch.testing.assert_close(A(lazy), A(lazy.resolve_conj()), atol=1e-9, rtol=0)
    assert A(x[:0]).shape == (0, 2, 6)
    with pytest.raises(SplitError, match="cut along points, frames or coils"):
        A.split(A, {ND("Nx"): slice(0, 2)})
    z = torch.randn(2, 5, dtype=torch.complex128)
    with_two_axes = NUFFT(locs, sizes, ("S", "R"), method="finufft")
    cut = with_two_axes.split(with_two_axes, {ND("R"): slice(1, 4)})
    torch.testing.assert_close(cut(x[0, 0]), with_two_axes(x[0, 0])[:, 1:4])
    torch.testing.assert_close(cut.H(z[:, 1:4]), with_two_axes.H(_only(z, 1, 4, n=6)))
    single = NUFFT(locs.float(), sizes, ("T", "K"), batch_shape=("C", "T"), method="finufft")
    y = single(x.to(torch.complex64))
    assert y.dtype is torch.complex64
    torch.testing.assert_close(y, B(x).to(torch.complex64), atol=1e-4, rtol=0)


def test_plans_follow_the_locations() -> None:
    locs = locations(6, sizes=(5, 4))
    A, B = (NUFFT(locs, (5, 4), ("K",), method=m, tol=1e-6) for m in ("finufft", "auto"))
    x = torch.randn(5, 4, dtype=torch.complex128)
    before = A(x)
    for other in (copy.deepcopy(A), pickle.loads(pickle.dumps(A))):
        torch.testing.assert_close(other(x), before)
    locs.mul_(0.5)
    torch.testing.assert_close(A(x), B(x), atol=1e-5, rtol=0)
    assert not torch.allclose(A(x), before)


@pytest.mark.parametrize("lost", [math.nan, math.inf])
@pytest.mark.parametrize("sizes", [(5,), (5, 4), (3, 4, 5)])
def test_locations_that_become_not_finite_give_nan(sizes: tuple[int, ...], lost: float) -> None:
    locs = locations(6, sizes=sizes)
    A = NUFFT(locs, sizes, ("K",), method="finufft")
    x = torch.randn(2, *sizes, dtype=torch.complex128)
    y = A(x)
    locs[2, 0] = lost
    torch.testing.assert_close(A(x)[:, [0, 1, 3, 4, 5]], y[:, [0, 1, 3, 4, 5]])
    assert A(x)[:, 2].isnan().all()
    assert A.H(y).isnan().all()
    locs.copy_(1e9 * torch.tensor(sizes))  # whole turns
    torch.testing.assert_close(A(x), A(x)[:, :1].expand(-1, 6))


def _only(z: Tensor, start: int, stop: int, n: int) -> Tensor:
    """Return z with zeros outside of the points from ``start`` to ``stop``."""
    result = z.new_zeros(*z.shape[:-1], n)
    result[..., start:stop] = z[..., start:stop]
    return result


def counted(monkeypatch: pytest.MonkeyPatch) -> list[ref[PlanPair]]:
    """Return a list of all plans that will be made."""
    made = list[ref[PlanPair]]()

    class Counted(PlanPair):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(ref(self))

    monkeypatch.setattr(_finufft_function, "PlanPair", Counted)
    return made


def test_one_plan_serves_both_directions_relatives_and_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = counted(monkeypatch)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    locs = locations(2, 6, sizes=(5, 4))
    A = NUFFT(locs, (5, 4), ("T", "K"), batch_shape=("C", "T"), method="finufft")
    x = torch.randn(3, 2, 5, 4, dtype=torch.complex128)
    A.N(A.H(A(x)))
    A(x[:1])
    assert len(made) == 2  # one for each frame, for any number of coils
    for _ in range(2):
        A.split(A, {ND("T"): slice(1, 2)})(x[:, 1:])
    A(x)
    assert len(made) <= 3
    locs.mul_(0.5)
    A(x)
    assert [plan() is not None for plan in made[:2]] == [False, False]
    del A
    gc.collect()
    assert not any(plan() for plan in made)


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_transform_and_its_gradients_share_a_plan(
    create_graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counted(monkeypatch)
    locs = locations(2, 6, sizes=(5, 4)).requires_grad_()
    A = NUFFT(locs, (5, 4), ("T", "K"), batch_shape=("C", "T"))
    x = torch.randn(3, 2, 5, 4, dtype=torch.complex128, requires_grad=True)
    n_frames = len(locs)
    for step in range(1, 4):
        y = A(x)
        result = torch.autograd.grad(y.abs().square().sum(), [x, locs], create_graph=create_graph)
        assert len(made) == step * n_frames
        assert all(plan() is None for plan in made[:-n_frames])
        locs.data.mul_(0.9)  # which torch does not count
    del A, locs, y, result
    gc.collect()
    assert not any(plan() for plan in made)


def forward(locs: Tensor, x: Tensor) -> Tensor:
    return NUFFT(locs, (3, 4), ("K",), method="finufft", tol=1e-11)(x)


def back(locs: Tensor, y: Tensor) -> Tensor:
    return NUFFT(locs, (3, 4), ("K",), method="finufft", tol=1e-11).H(y)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("function", [forward, back])
def test_derivatives_of_first_and_second_order_are_those_of_differences(
    function: Callable[[Tensor, Tensor], Tensor],
) -> None:
    locs = locations(3, sizes=(3, 4)).requires_grad_()
    own = (3, 4) if function is forward else (3,)
    x = torch.randn(2, *own, dtype=torch.complex128, requires_grad=True)
    assert gradcheck(
        function, (locs, x), fast_mode=True, check_forward_ad=True, check_batched_grad=True
    )
    assert gradgradcheck(function, (locs, x), fast_mode=True)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
@pytest.mark.parametrize("function", [forward, back])
def test_transforms_of_torch_func(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    locs = torch.stack([locations(3, sizes=(3, 4), seed=seed) for seed in range(2)])
    own = (3, 4) if function is forward else (3,)
    x = torch.randn(2, *own, dtype=torch.complex128)
    each = [[function(at, image) for image in x] for at in locs]
    both = torch.func.vmap(torch.func.vmap(function, (None, 0)), (0, None))(locs, x)
    torch.testing.assert_close(both, torch.stack([torch.stack(row) for row in each]))
    one_by_one = torch.func.vmap(function)(locs, x)
    torch.testing.assert_close(one_by_one, torch.stack([each[0][0], each[1][1]]))

    def power(at: Tensor) -> Tensor:
        return function(at, x).abs().square().sum()

    forth, reverse = (jac(power)(locs[0]) for jac in (torch.func.jacfwd, torch.func.jacrev))
    torch.testing.assert_close(forth, reverse)
    at = locs[0].clone().requires_grad_()
    torch.testing.assert_close(torch.autograd.grad(power(at), at)[0], reverse)


def test_a_compiled_graph_gives_the_same_bits_with_plans_that_follow_the_locations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    made = counted(monkeypatch)
    locs = locations(6, sizes=(5, 4)).requires_grad_()
    A = NUFFT(locs, (5, 4), ("K",), method="finufft")
    compiled = torch.compile(A, fullgraph=True, dynamic=True, backend="aot_eager")

    def results(linop: Callable[[Tensor], Tensor], x: Tensor, locs: Tensor) -> list[Tensor]:
        y = linop(x)
        return [y, *torch.autograd.grad(y.abs().square().sum(), [x, locs])]

    for n in (2, 3, 3):
        x = torch.randn(n, 5, 4, dtype=torch.complex128, requires_grad=True)
        before = len(made)
        result = results(compiled, x, locs)
        compiled(x)
        assert len(made) == before + 1
        now = locs.detach().clone().requires_grad_()
        expected = results(NUFFT(now, (5, 4), ("K",), method="finufft"), x, now)
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
        locs.data.mul_(0.5)  # which torch does not count
    del A, locs, now, compiled, result, expected
    torch._dynamo.reset()
    gc.collect()
    assert not any(plan() for plan in made)


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_has_one_operation(strict: bool, tmp_path: Path) -> None:
    locs, names = locations(2, 6, sizes=(5, 4)), ("T", "K")
    A = NUFFT(locs, (5, 4), names, batch_shape=("C", "T"), method="finufft")
    x = torch.randn(3, 2, 5, 4, dtype=torch.complex64)
    batch = ({0: torch.export.Dim("C", min=2)},)
    exported = torch.export.export(A, (x,), dynamic_shapes=batch, strict=strict)
    assert str(exported.graph).count("linops_imaging.non_uniform_transform") == 1
    torch.export.save(exported, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2").module()
    for n in (3, 2):
        torch.testing.assert_close(loaded(x[:n]), A(x[:n]), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:.torch.jit.trace")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_recorded_call_is_no_constant() -> None:
    A = NUFFT(locations(6, sizes=(5, 4)), (5, 4), ("K",), method="finufft")
    x = torch.randn(5, 4, dtype=torch.complex128)
    for recorded in (make_fx(A)(x), torch.jit.trace(A, x, check_trace=False)):
        torch.testing.assert_close(recorded(2 * x), 2 * A(x))


def test_without_data_there_are_shapes() -> None:
    A = NUFFT(torch.zeros(6, 2, device="meta"), (5, 4), ("K",), method="finufft")
    assert A(torch.zeros(3, 5, 4, device="meta")).shape == (3, 6)


def test_other_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    A = NUFFT(LOCS, (4, 4), ("K",), method="finufft")
    monkeypatch.setattr(_finufft, "LIBRARIES", {"cuda": "cufinufft"})
    message = "must be used on a CPU or a CUDA device, got cpu; make the NUFFT of locations on that"
    with pytest.raises(RuntimeError, match=message):
        A(torch.ones(4, 4))


@pytest.mark.parametrize(("device", "library"), [("cpu", "finufft"), ("cuda", "cufinufft")])
def test_it_says_how_to_install_it(
    device: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install 'linops-imaging\[{library}\]'"):
        library_for(device)
    if device == "cpu":
        with pytest.raises(ImportError, match="pip install"):
            NUFFT(LOCS, (4, 4), ("K",), method="finufft")


def test_it_takes_tol_alone() -> None:
    with pytest.raises(
        ValueError, match=r'method="finufft" must be given without .* got oversamp=2\.0, width=8\.0'
    ):
        NUFFT(LOCS, (4, 4), ("K",), oversamp=2.0, width=8.0, method="finufft")


class GpuPlan:
    """Stands for cufinufft's Plan: the same arguments, computed by finufft on a CPU."""

    def __init__(
        self,
        kind: int,
        n_modes: tuple[int, ...],
        n_trans: int,
        eps: float,
        isign: int,
        dtype: str,
        upsampfac: float,
        gpu_device_id: int,
        gpu_stream: int,
    ) -> None:
        assert (gpu_device_id, gpu_stream) == (3, 17)
        self.batch = (n_trans,) if n_trans > 1 else ()
        self.shapes = [(*self.batch, *n_modes)]
        self.kind = kind
        self.plan = finufft.Plan(
            kind, n_modes, n_trans, eps, isign, dtype=dtype, upsampfac=upsampfac
        )

    def setpts(self, *axes: Tensor) -> None:
        assert all(at.is_contiguous() for at in axes)
        self.shapes.append((*self.batch, len(axes[0])))
        self.plan.setpts(*(at.numpy() for at in axes))

    def execute(self, data: Tensor, out: Tensor) -> None:
        shapes = self.shapes[:: -1 if self.kind == 1 else 1]
        assert [data.shape, out.shape] == shapes
        assert data.is_contiguous()
        assert data.dtype == out.dtype
        out.copy_(torch.from_numpy(self.plan.execute(data.numpy()).reshape(out.shape)))


class OnGpu(Tensor):
    """Locations that say that they are on a GPU."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", 3)


@pytest.mark.parametrize("n", [1, 2])
def test_a_plan_of_cufinufft_is_asked_for_the_same(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU was not at hand: what its library is asked for is computed by finufft."""
    sizes = (5, 4)
    locs, way = locations(6, sizes=sizes), fastest_plan_precision(1e-9, sizes, torch.complex128)
    monkeypatch.setitem(sys.modules, "cufinufft", SimpleNamespace(Plan=GpuPlan))
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=17)
    )
    on_gpu = PlanPair(locs.as_subclass(OnGpu), sizes, n, way)
    for is_back, here, there in ((False, sizes, (6,)), (True, (6,), sizes)):
        data = torch.randn(n, *here, dtype=torch.complex128)
        actual, expected = torch.empty(2, n, *there, dtype=data.dtype)
        for pair, result in ((on_gpu, actual), (PlanPair(locs, sizes, 1, way), expected)):
            pair.apply(data, result, is_back=is_back)
        torch.testing.assert_close(actual, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(5,), (5, 4), (3, 4, 5)])
def test_cufinufft_gives_the_matrix_of_the_exact_sum(sizes: tuple[int, ...]) -> None:
    pytest.importorskip("cufinufft")
    locs = locations(6, sizes=sizes)
    A = NUFFT(locs.cuda(), sizes, ("K",), batch_shape=("C",), method="finufft", tol=1e-9)
    expected = matrix(locs, sizes)
    x, y = torch.randn(3, *sizes, dtype=expected.dtype), torch.randn(3, 6, dtype=expected.dtype)
    with torch.cuda.stream(torch.cuda.Stream()):
        forward, back = A(x.cuda()).cpu(), A.H(y.cuda()).cpu()
    torch.testing.assert_close(forward, x.flatten(1) @ expected.mT, atol=1e-8, rtol=0)
    torch.testing.assert_close(back.flatten(1), y @ expected.conj(), atol=1e-8, rtol=0)
    dottest(A, {"C": 3}, rtol=1e-6)
    single = NUFFT(locs.cuda().float(), sizes, ("K",), batch_shape=("C",), method="finufft")
    result = single(x.cuda().to(torch.complex64)).cpu()
    torch.testing.assert_close(result, forward.to(torch.complex64), atol=1e-4, rtol=0)


def test_one_converted_image_is_in_memory_at_a_time(
    allocated: Callable[[Callable[[], object]], int], one_thread: None
) -> None:
    locs = 8 * torch.rand(20_000, 3, generator=torch.Generator().manual_seed(0)) - 4
    A = NUFFT(locs, (8, 8, 8), ("K",), batch_shape=("C",), tol=1e-6, method="finufft")
    x = torch.ones(4, 8, 8, 8, dtype=torch.complex64)  # the plan is in double precision
    results, one = 4 * 8 * len(locs), 16 * (len(locs) + 8**3)
    assert results + one <= allocated(lambda: A(x)) < results + 1.2 * one
