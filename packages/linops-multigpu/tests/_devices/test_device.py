import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_multigpu._devices._device_spec import as_device, existing_device


@pytest.mark.parametrize("name", ["cpu", "cpu:0", "meta", "meta:0"])
def test_devices_with_one_instance_have_no_index(name: str) -> None:
    assert as_device(name) == torch.device(name.partition(":")[0])


def test_the_index_that_a_tensor_would_have_is_filled_in() -> None:
    with FakeTensorMode():
        assert as_device("cuda") == torch.device("cuda:0")
    assert as_device("cuda:3") == torch.device("cuda:3")


def test_a_device_that_is_there_is_that_of_a_tensor_on_it() -> None:
    assert existing_device(torch.device("cpu")) == torch.empty(0).device


@pytest.mark.parametrize("name", ["", "cuda:-1", "nothing"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a device must be named as in 'cpu' or 'cuda:0', got"):
        as_device(name)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="the device cuda:99 must exist to be used: "):
        existing_device(torch.device("cuda:99"))


@pytest.mark.gpu
def test_the_current_gpu_has_an_index() -> None:
    assert as_device("cuda") == torch.device("cuda", torch.cuda.current_device())
