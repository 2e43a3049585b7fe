import copy
import pickle

import pytest
import torch

from linops_core import Diagonal, Identity
from linops_multigpu import ToDevice
from nameddim import ND


def test_it_moves_there_and_its_adjoint_moves_back() -> None:
    A = ToDevice("cpu", "meta", ("N",))
    x = torch.rand(3, dtype=torch.complex64)
    assert A(x).device.type == "meta" and A(x).shape == (3,) and A(x).dtype == x.dtype
    back = A.H
    assert isinstance(back, ToDevice)
    assert (back.idevice, back.odevice) == (torch.device("meta"), torch.device("cpu"))
    assert A.H.H is A


def test_its_normal_is_the_identity() -> None:
    A = ToDevice("cpu", "meta", ("N",))
    assert isinstance(A.N, Identity)
    x = torch.ones(2)
    assert A.N(x) is x


def test_equal_devices_copy_nothing() -> None:
    x = torch.ones(2)
    assert ToDevice("cpu", "cpu:0")(x) is x


def test_it_takes_any_shape_unless_it_is_named() -> None:
    assert ToDevice("cpu", "meta")(torch.ones(2, 3, 4)).shape == (2, 3, 4)
    with pytest.raises(ValueError, match=r"must have 1 dimensions for \(N\) -> \(N\)"):
        ToDevice("cpu", "meta", ("N",))(torch.ones(2, 3))


def test_names_are_resolved_and_parts_are_cut_like_those_of_an_identity() -> None:
    chain = Diagonal(torch.arange(4.0), ("N",)) @ ToDevice("cpu", "cpu")
    part = chain.split(chain, {ND("N"): slice(1, 3)})
    assert torch.equal(part(torch.ones(2)), torch.tensor([1.0, 2.0]))


def test_an_input_on_the_wrong_device_is_refused() -> None:
    A = ToDevice("meta", "cpu")
    message = r"ToDevice\(meta -> cpu\): the input must be on meta, got cpu"
    with pytest.raises(ValueError, match=message):
        A(torch.ones(2))
    with pytest.raises(ValueError, match="the input must be on cpu, got meta"):
        A.H(torch.ones(2, device="meta"))


@pytest.mark.parametrize("devices", [("gpu", "cpu"), ("cpu", "cuda:x"), ("cpu", None)])
def test_what_is_no_device_is_refused(devices: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="a device must be named as in 'cpu' or 'cuda:0'"):
        ToDevice(*devices)


def test_copies_and_pickles_are_the_same_operator() -> None:
    A = ToDevice("cpu", "meta", ("N",))
    for other in (copy.copy(A), copy.deepcopy(A), pickle.loads(pickle.dumps(A)), A.H.H):
        assert repr(other) == repr(A) == "ToDevice(cpu -> meta) (N) -> (N)"
        assert other(torch.ones(2)).device.type == "meta"


@pytest.mark.gpu
def test_a_gpu_gets_the_values_and_gives_them_back() -> None:
    A = ToDevice("cpu", "cuda:0", ("N",))
    x = torch.rand(1000, dtype=torch.complex64, requires_grad=True)
    assert A(x).device == torch.device("cuda:0")
    assert torch.equal(A.H(A(x)), x) and A.N(x) is x
    A(x).abs().square().sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    torch.testing.assert_close(x.grad, 2 * x.detach())


@pytest.mark.multigpu
def test_one_gpu_gets_what_another_gives() -> None:
    A = ToDevice("cuda:0", "cuda:1", ("N",))
    x = torch.rand(1000, dtype=torch.complex64, device="cuda:0")
    assert A(x).device == torch.device("cuda:1")
    assert torch.equal(A.H(A(x)), x)
    with pytest.raises(ValueError, match="the input must be on cuda:0, got cuda:1"):
        A(A(x))
