"""What the package needs of torch's private names."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode as TorchMode

from linops_split._private_torch import (
    FakeTensor,
    FakeTensorMode,
    TorchDispatchMode,
    convolution_backend,
    in_kernel_invocation_manager,
    is_batch,
    may_return_an_argument,
)

aten = torch.ops.aten


def test_batches_of_gradients_are_seen() -> None:
    seen = []
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    y.register_hook(lambda gradient: seen.append(is_batch(gradient)))
    torch.autograd.grad(y, x, torch.ones(2), retain_graph=True)
    torch.autograd.grad(y, x, torch.ones(3, 2), is_grads_batched=True)
    assert seen == [False, True]


def test_convolutions_have_a_backend() -> None:
    x, kernel = torch.ones(1, 1, 4), torch.ones(1, 1, 2)
    given = None, [1], [0], [1], False, [0], 1
    assert convolution_backend(x.double(), kernel.double(), *given) == "Slow2d"
    assert convolution_backend(x[:0], kernel, *given) == "Empty"


def test_operations_that_may_return_an_argument_are_known() -> None:
    assert may_return_an_argument(aten.reshape.default)
    assert not may_return_an_argument(aten.add.Tensor)


def test_fake_tensors_have_a_device_and_views_without_python() -> None:
    with FakeTensorMode() as mode:
        x = torch.ones(3)
    assert isinstance(x, FakeTensor) and x.fake_device.type == "cpu" and x.fake_mode is mode
    with in_kernel_invocation_manager(mode):
        assert x.device.type == "meta"
    assert FakeTensorMode is TorchMode


def test_modes_may_run_without_the_wrapper_of_the_compiler() -> None:
    class Mode(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return func(*args, **(kwargs or {}))

    assert Mode.__torch_dispatch__.__code__.co_filename == __file__


def test_a_mode_sees_operations() -> None:
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():  # type: ignore[no-untyped-call]
        torch.ones(2) + 1
    assert seen[-1] is aten.add.Tensor
