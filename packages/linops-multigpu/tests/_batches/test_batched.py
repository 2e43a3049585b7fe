"""batched: one call for one device or several."""

import pytest
import torch

from linops_core import FFT, Dense, NamedLinop
from linops_multigpu import BatchedLinop, batched
from linops_multigpu.testing import simulated
from linops_split import SplitError, Tiled, plan_batches


def scan() -> NamedLinop:
    maps = torch.randn(4, 5, 3, dtype=torch.complex128)
    return FFT(2) @ Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))


def test_without_devices_it_works_tile_by_tile_where_the_operator_is() -> None:
    A, x = scan(), torch.randn(5, 3, dtype=torch.complex128)
    B = batched(A, {"C": 2})
    assert isinstance(B, Tiled) and not isinstance(B, BatchedLinop) and len(B.linops) == 2
    torch.testing.assert_close(B(x), A(x))
    torch.testing.assert_close(B.N(x), A.N(x))


def test_with_devices_tiles_alternate_between_them() -> None:
    A, x = scan(), torch.randn(5, 3, dtype=torch.complex128)
    with simulated(2):
        B = batched(A, {"C": 1}, ["sim:0", "sim:1"])
        assert isinstance(B, BatchedLinop)
        assert [str(device) for device in B.where.devices] == ["sim:0", "sim:1"] * 2
        torch.testing.assert_close(B(x), A(x))


def test_half_precision_is_summed_in_single_over_devices() -> None:
    weight = torch.ones(41, 2, dtype=torch.bfloat16)
    weight[0, 0] = 2048  # where 1 more is lost
    A, x = Dense(weight, ("M", "N"), ("M", "N"), ("N",)), torch.ones_like(weight)
    with simulated(2):
        y = batched(A, {"M": 1}, ["sim:0", "sim:1"])(x)
        shared = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)  # that all tiles read
        D = Dense(shared, ("N",), ("M", "N"), ("M", "N"))
        B = batched(D, {"M": 1}, ["sim:0", "sim:1"], sizes={"M": 41})
        (gradient,) = torch.autograd.grad(B(weight), shared, torch.ones_like(weight))
    assert y.dtype == torch.bfloat16 and torch.equal(y, A(x))
    assert gradient.dtype == y.dtype and torch.equal(gradient, weight.sum(0))


def test_a_plan_is_taken_as_its_sizes() -> None:
    A = scan()
    plan = plan_batches(A, 1200, work="normal")
    assert repr(batched(A, plan)) == repr(batched(A, plan.batch_sizes)) != repr(A)
    everything = plan_batches(A, "1 MB")
    assert batched(A, everything) is A


@pytest.mark.parametrize("devices", [None, ["cpu"]])
def test_a_plan_has_the_sizes_that_the_operator_does_not_know(devices: list[str] | None) -> None:
    F, x = FFT(2, ("C",), centered=True), torch.randn(4, 3, 3, dtype=torch.complex128)
    plan = plan_batches(F, 3 * x.nbytes, like=torch.cat([x, x]))
    assert plan.sizes == {"C": 8} and plan.n_tiles > 1
    B = batched(F, plan, devices)
    with pytest.raises(ValueError, match="C must have size 8, got 4"):
        B(x)
    with pytest.raises(SplitError, match="C must be known"):
        batched(F, plan, devices, sizes={})


def test_sizes_and_a_bar_are_passed_on() -> None:
    F, options = FFT(2, ("C",)), {"disable": True}
    for devices in (None, "cpu"):
        B = batched(F, {"C": 1}, devices, sizes={"C": 2}, tqdm_kwargs=options)
        x = torch.randn(2, 3, 3, dtype=torch.complex128)
        torch.testing.assert_close(B(x), F(x))


def test_what_does_not_fit_is_refused() -> None:
    for devices in (None, "cpu"):
        with pytest.raises(SplitError, match="Kx"):
            batched(scan(), {"Kx": 1}, devices)
    with pytest.raises(TypeError, match="batch_sizes must be"):
        batched(scan(), 2)  # type: ignore[arg-type]
