import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch

from linops_multigpu import DeviceSpec


def test_specs_that_say_the_same_are_equal_and_hash_alike(paper: Any) -> None:
    compute, transfer = (paper.new_stream(torch.device("cuda:1")) for _ in range(2))
    one = DeviceSpec("cuda:1", compute, transfer)
    other = DeviceSpec(torch.device("cuda:1"), transfer_stream=transfer, compute_stream=compute)
    assert one == other and hash(one) == hash(other)
    assert (one.device, one.compute_stream) == (torch.device("cuda:1"), compute)
    assert one != DeviceSpec("cuda:1", transfer, compute) != DeviceSpec("cuda:1")
    assert DeviceSpec("cuda:0") != DeviceSpec("cuda:1")


def test_an_index_that_says_nothing_makes_no_difference() -> None:
    assert DeviceSpec("cpu:0") == DeviceSpec(torch.device("cpu"))


def test_a_spec_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        DeviceSpec("cpu").device = torch.device("meta")  # type: ignore[misc]


def test_copies_are_the_spec_itself_with_its_streams(paper: Any) -> None:
    spec = DeviceSpec("cuda:0", paper.new_stream(torch.device("cuda:0")))
    assert copy.copy(spec) is copy.deepcopy(spec) is copy.deepcopy([spec])[0] is spec


def test_a_spec_without_streams_can_be_pickled() -> None:
    spec = DeviceSpec("cuda:3")
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize("name", ["compute_stream", "transfer_stream"])
def test_streams_are_not_pickled(paper: Any, name: str) -> None:
    spec = DeviceSpec("cuda:0", **{name: paper.new_stream(torch.device("cuda:0"))})
    with pytest.raises(TypeError, match="DeviceSpec: streams belong to one process and must be"):
        pickle.dumps(spec)


@pytest.mark.parametrize("name", ["compute_stream", "transfer_stream"])
def test_a_stream_of_another_device_is_refused(paper: Any, name: str) -> None:
    stream = paper.new_stream(torch.device("cuda:1"))
    message = rf"DeviceSpec: {name} must be a stream of cuda:0, got one of cuda:1"
    with pytest.raises(ValueError, match=message):
        DeviceSpec("cuda:0", **{name: stream})
    with pytest.raises(ValueError, match=f"{name} must be left out for cpu, which has no streams"):
        DeviceSpec("cpu", **{name: stream})
    with pytest.raises(TypeError, match=f"DeviceSpec: {name} must be a stream, got 3"):
        DeviceSpec("cuda:0", **{name: 3})  # type: ignore[arg-type]


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(ValueError, match="a device must be named as in 'cpu' or 'cuda:0'"):
        DeviceSpec("gpu")


@pytest.mark.gpu
def test_streams_of_a_gpu_are_taken() -> None:
    compute: Any = torch.cuda.Stream("cuda:0")
    transfer: Any = torch.Stream("cuda:0")
    spec = DeviceSpec("cuda:0", compute, transfer)
    assert spec.compute_stream is compute and spec.transfer_stream is transfer
    assert copy.deepcopy(spec) is spec
