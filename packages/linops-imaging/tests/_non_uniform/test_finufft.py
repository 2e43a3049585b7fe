"""What finufft computes within a NUFFT; `witnesses` has it beside one."""

import copy
import math
import pickle
import sys
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from linops_core import SplitError
from linops_core.testing import dottest
from linops_imaging import NUFFT
from linops_imaging._non_uniform._finufft_plan import planned
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


@pytest.mark.parametrize("sizes", [(5,), (5, 4), (3, 4, 5)])
def test_it_is_the_matrix_of_the_exact_sum(sizes: tuple[int, ...]) -> None:
    locs = locations(6, sizes=sizes)
    A = NUFFT(locs, sizes, ("K",), batch_shape=(), method="finufft", tol=1e-9)
    expected = matrix(locs, sizes)
    torch.testing.assert_close(A.to_dense(), expected, atol=1e-8, rtol=0)
    torch.testing.assert_close(A.H.to_dense(), expected.mH, atol=1e-8, rtol=0)
    dottest(A, rtol=1e-6)


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", [(64,), (24, 20), (12, 12, 12)])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_entry_is_off_by_more_than_tol(
    sizes: tuple[int, ...], tol: float, dtype: torch.dtype
) -> None:
    locs = locations(20, sizes=sizes).to(dtype)
    locs[0] = torch.tensor(sizes) / 2
    A = NUFFT(locs, sizes, ("K",), batch_shape=(), method="finufft", tol=tol)
    found = A.to_dense(dtype=dtype.to_complex())
    assert (found - matrix(locs, sizes)).abs().max() * math.sqrt(math.prod(sizes)) <= tol


def test_the_adjoint_is_matched_on_one_thread_in_three_dimensions() -> None:
    """With the library's own choice of upsampling, entries differ by 4e-2 here."""
    sizes, threads = (12, 12, 12), torch.get_num_threads()
    locs = locations(20, sizes=sizes).float()
    A = NUFFT(locs, sizes, ("K",), batch_shape=(), method="finufft", tol=1e-1)
    try:
        torch.set_num_threads(1)
        found = A.to_dense(dtype=torch.complex64)
        back = A.H.to_dense(dtype=torch.complex64).mH
    finally:
        torch.set_num_threads(threads)
    assert (found - back).abs().max() * math.sqrt(12**3) < 2e-6


def test_the_default_keeps_its_accuracy_where_single_precision_does_not() -> None:
    """Angles in single precision alone would be wrong by 5e-3 here."""
    n, at = 2**16, torch.tensor([[-1.0], [0.77], [0.99]])
    locs = at * n / 2
    A = NUFFT(locs, (n,), ("K",), method="finufft")
    impulse = torch.zeros(2, n)
    impulse[0, 0] = impulse[1, -1] = math.sqrt(n)
    turns = locs.double() / n * torch.tensor([-n // 2, n // 2 - 1])
    expected = torch.exp(-2j * math.pi * (turns - turns.round())).T
    y = A(impulse)
    assert y.dtype is torch.complex64
    torch.testing.assert_close(y, expected.to(y.dtype), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, 4.8e-7), (torch.float64, 1e-12)])
def test_a_tol_that_cannot_be_is_refused(dtype: torch.dtype, least: float) -> None:
    with pytest.raises(
        ValueError, match=r"NUFFT: tol must be .* at least 1.1e-12|at least 5.0e-07"
    ):
        NUFFT(LOCS.to(dtype), (4, 4), ("K",), method="finufft", tol=0.9 * least)
    NUFFT(LOCS.to(dtype), (4, 4), ("K",), method="finufft", tol=1.1 * least)


def test_frames_tiles_gradients_and_other_precisions() -> None:
    sizes = (5, 4)
    locs = locations(2, 6, sizes=sizes)
    A, B = (
        NUFFT(locs, sizes, ("T", "K"), batch_shape=("C", "T"), method=method, tol=1e-6)
        for method in ("finufft", "auto")
    )
    x = torch.randn(3, 2, *sizes, dtype=torch.complex128, requires_grad=True)
    torch.testing.assert_close(A(x), B(x), atol=1e-5, rtol=0)
    found, expected = (torch.autograd.grad(linop(x).abs().square().sum(), x)[0] for linop in (A, B))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(A.N(x), B.N(x), atol=1e-5, rtol=0)
    part = A.split(A, {ND("T"): slice(1, 2), ND("K"): slice(2, 5), ND("C"): slice(0, 2)})
    torch.testing.assert_close(part(x[:2, 1:]), A(x)[:2, 1:, 2:5], atol=1e-9, rtol=0)
    lazy = x[:1].conj()
    torch.testing.assert_close(A(lazy), A(lazy.resolve_conj()), atol=1e-9, rtol=0)
    assert A(x[:0]).shape == (0, 2, 6)
    with pytest.raises(SplitError, match="cut along points, frames or coils"):
        A.split(A, {ND("Nx"): slice(0, 2)})
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


def test_what_it_cannot_do_is_refused() -> None:
    A = NUFFT(LOCS.clone().requires_grad_(), (4, 4), ("K",), method="finufft")
    message = r"locations that do not require gradients .* use method=\"auto\""
    with pytest.raises(RuntimeError, match=message):
        A(torch.ones(4, 4))
    B = NUFFT(LOCS, (4, 4), ("K",), method="finufft")
    with pytest.raises(RuntimeError, match="outside of tracing and transforms"):
        torch.func.vmap(B)(torch.ones(2, 4, 4))


def test_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "finufft", None)
    with pytest.raises(ImportError, match=r"pip install 'linops-imaging\[finufft\]'"):
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
        self.shapes = [(n_trans, *n_modes)]
        self.kind = kind
        self.plan = finufft.Plan(
            kind, n_modes, n_trans, eps, isign, dtype=dtype, upsampfac=upsampfac
        )

    def setpts(self, *axes: Tensor) -> None:
        assert all(at.is_contiguous() for at in axes)
        self.shapes.append((self.shapes[0][0], len(axes[0])))
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
    sizes, made = (5, 4), torch.tensor
    locs = locations(6, sizes=sizes)
    monkeypatch.setitem(sys.modules, "cufinufft", SimpleNamespace(Plan=GpuPlan))
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=17)
    )
    monkeypatch.setattr(torch, "tensor", lambda *args, device, **kwargs: made(*args, **kwargs))
    for is_back, shape in ((False, (n, *sizes)), (True, (n, 6))):
        data = torch.randn(shape, dtype=torch.complex128)
        found, expected = (
            planned(at, sizes, n, data.dtype, 1e-9, is_back=is_back)(data)
            for at in (locs.as_subclass(OnGpu), locs)
        )
        torch.testing.assert_close(found.as_subclass(Tensor), expected.reshape(found.shape))


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
    found = single(x.cuda().to(torch.complex64)).cpu()
    torch.testing.assert_close(found, forward.to(torch.complex64), atol=1e-4, rtol=0)
