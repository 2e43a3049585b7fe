import torch

from linops_core._kernels._tracing import constant_when_compiled


def test_a_function_is_marked_as_torch_does() -> None:
    def ours(x: int) -> int:
        return x

    def theirs(x: int) -> int:
        return x

    assert constant_when_compiled(ours) is ours
    marked = torch.compiler.assume_constant_result(theirs)
    assert vars(ours) == vars(marked) != {}
