import copy
import operator
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import Diagonal, Identity
from linops_multigpu import DeviceSpec, ToDevice
from linops_multigpu._devices._to_device import copy_on_device as sent_by_streams
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


def test_given_streams_are_swapped_by_the_adjoint(paper: Any) -> None:
    istream, ostream = (paper.new_stream(torch.device(f"cuda:{k}")) for k in range(2))
    A = ToDevice("cuda:0", "cuda:1", ("N",), istream, ostream)
    assert (A.istream, A.ostream) == (istream, ostream)
    back = A.H
    assert isinstance(back, ToDevice) and (back.istream, back.ostream) == (ostream, istream)
    assert ToDevice("cuda:0", "cuda:1").istream is None is ToDevice("cuda:0", "cuda:1").ostream


def test_given_streams_are_shared_by_copies_and_not_pickled(paper: Any) -> None:
    stream = paper.new_stream(torch.device("cuda:0"))
    for A in (ToDevice("cuda:0", "cpu", istream=stream), ToDevice("cpu", "cuda:0", ostream=stream)):
        for other in (copy.copy(A), copy.deepcopy(A), copy.deepcopy(A.H).H):
            assert isinstance(other, ToDevice)
            assert (other.istream, other.ostream) == (A.istream, A.ostream)
        for linop in (A, A.H, A @ A.H):
            with pytest.raises(TypeError, match="streams belong to one process and must be given"):
                pickle.dumps(linop)


@pytest.mark.parametrize("name", ["istream", "ostream"])
def test_what_is_no_stream_of_its_device_is_refused(paper: Any, name: str) -> None:
    stream = paper.new_stream(torch.device("cuda:1"))
    with pytest.raises(ValueError, match=f"ToDevice: {name} must be a stream of cuda:0, got one"):
        ToDevice("cuda:0", "cuda:0", **{name: stream})
    with pytest.raises(ValueError, match=f"{name} must be left out for cpu, which has no streams"):
        ToDevice("cpu", "cpu", **{name: stream})
    with pytest.raises(TypeError, match=f"ToDevice: {name} must be a stream, got 1"):
        ToDevice("cuda:0", "cuda:0", **{name: 1})  # type: ignore[arg-type]


def copy_on_device(x: Tensor) -> Tensor:
    """Send a vector as to another device; to the one that a test without devices has."""
    result: Tensor = sent_by_streams(x, DeviceSpec("cpu"), DeviceSpec("cpu"))
    return result


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_it_is_its_own_derivative_to_any_order() -> None:
    x = torch.rand(3, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(copy_on_device, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: copy_on_device(x * x), x)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_it_can_be_transformed() -> None:
    x = torch.rand(3, 4, dtype=torch.float64)
    for in_dim in (0, 1):
        assert torch.equal(torch.vmap(copy_on_device, in_dim, in_dim)(x), x)
    jacobian = torch.func.jacrev(lambda x: copy_on_device(2 * x))(x[0])
    assert torch.equal(jacobian, 2 * torch.eye(4, dtype=torch.float64))
    assert torch.equal(torch.func.jacfwd(lambda x: copy_on_device(2 * x))(x[0]), jacobian)


def test_shapes_of_many_are_sent_at_once() -> None:
    many = torch.vmap(ToDevice("cpu", "meta", ("N",)))(torch.rand(3, 4))
    assert many.device.type == "meta" and many.shape == (3, 4)


def test_where_nothing_is_copied_a_graph_is_not_broken() -> None:
    A = Diagonal(torch.rand(3), ("N",)) @ ToDevice("cpu", "cpu", ("N",))
    x = torch.rand(3)
    compiled = torch.compile(A, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), A(x))


def test_where_something_is_copied_it_is_outside_of_the_graph() -> None:
    A, called = ToDevice("cpu", "meta", ("N",)), list[object]()

    def noted(graph: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        called.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph

    compiled = torch.compile(lambda x: A(2 * x) + 1, backend=noted)
    assert compiled(torch.rand(3)).device.type == "meta"
    assert called == [operator.mul, operator.add]


@pytest.mark.gpu
def test_a_gpu_gets_the_values_and_gives_them_back() -> None:
    A = ToDevice("cpu", "cuda:0", ("N",))
    x = torch.rand(1000, dtype=torch.complex64, requires_grad=True)
    assert A(x).device == torch.device("cuda:0")
    assert torch.equal(A.H(A(x)), x) and A.N(x) is x
    A(x).abs().square().sum().backward()
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


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="the device cuda:98 must exist to be used"):
        ToDevice("cpu", "cuda:98")(torch.ones(2))
