"""Laws of copies, files and constructors: what is shared stays shared, what is not is not."""

from __future__ import annotations

import copy
import io
import pickle
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..._base._linop import NamedLinop
from ._factories import LinopFactories, tensors_of


class CopyLaws(LinopFactories):
    """A shallow copy shares all tensors, a deep one none, a file gives back what it was given."""

    def test_constructors_keep_parameters_as_they_are(self) -> None:
        made: list[Tensor] = []
        make = nn.Parameter.__new__

        def remembered(*args: object, **kwargs: object) -> Tensor:
            made.append(make(*args, **kwargs))  # type: ignore[arg-type] # passed on
            return made[-1]

        with patch.object(nn.Parameter, "__new__", staticmethod(remembered)):
            A = self.make_linop()
            kept = [*A.parameters(), *A.H.parameters(), *A.N.parameters()]
        assert {id(parameter) for parameter in kept} == {id(parameter) for parameter in made}

    def test_shallow_copy_shares_tensors_and_no_dictionary(self) -> None:
        A = self.make_linop()
        other = copy.copy(A)
        assert all(a is b for a, b in zip(tensors_of(A), tensors_of(other), strict=True))
        for name in ("_parameters", "_buffers", "_modules"):
            assert vars(other)[name] is not vars(A)[name]
        x = self.make_input(A)
        assert self.close(other(x), A(x))
        assert other.H is not A.H

    def test_deep_copy_is_equal_and_shares_no_memory(self) -> None:
        A = self.make_linop()
        other = copy.deepcopy(A)
        x = self.make_input(A)
        assert self.close(other(x), A(x))
        assert self.close(other.H(A(x)), A.H(A(x)))
        check_no_memory_is_shared(A, other)
        assert [t.requires_grad for t in tensors_of(other)] == [
            t.requires_grad for t in tensors_of(A)
        ]

    def test_deep_copies_of_derived_operators_are_equal_and_independent(self) -> None:
        A = self.make_linop()
        for linop, x in self.derived(A):
            other = copy.deepcopy(linop)
            assert self.close(other(x), linop(x))
            check_no_memory_is_shared(linop, other)

    def test_pickle_keeps_the_operator(self) -> None:
        A = self.make_linop()
        for linop, x in self.derived(A)[:3]:
            other = pickle.loads(pickle.dumps(linop))
            assert repr(other) == repr(linop)
            assert self.close(other(x), linop(x))

    def test_files_keep_the_operator(self) -> None:
        A = self.make_linop()
        for linop, x in self.derived(A)[:3]:
            other = saved_and_loaded(linop, weights_only=False)
            assert isinstance(other, NamedLinop)
            assert repr(other) == repr(linop)
            assert self.close(other(x), linop(x))

    def test_state_dict_carries_all_values(self) -> None:
        A = self.make_linop()
        state = saved_and_loaded(A.state_dict(), weights_only=True)
        other = copy.deepcopy(A)
        derived = [other.H, other.N]
        for tensor in tensors_of(other):
            tensor.detach().zero_()
        other.load_state_dict(state)  # type: ignore[arg-type] # what was saved
        for (linop, x), loaded in zip(self.derived(A), (other, *derived), strict=False):
            assert self.close(loaded(x), linop(x))

    def test_repr_reads_no_tensor(self) -> None:
        A = self.make_linop()
        derived = [A, A.H, A.N]
        with NoOperations():
            shown = [repr(linop) for linop in derived]
        assert [lines.splitlines()[0] for lines in shown] == [
            repr(linop).splitlines()[0] for linop in derived
        ]


class NoOperations(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's own
    """Inside, no operation on a tensor may run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch's own

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        """Refuse the operation."""
        raise AssertionError(f"no tensor must be read or written here, got {func}")


def check_no_memory_is_shared(A: NamedLinop, other: NamedLinop) -> None:
    """Check that two operators have as many storages, and no common one."""
    storages = [
        {tensor.untyped_storage().data_ptr() for tensor in tensors_of(linop)}
        for linop in (A, other)
    ]
    assert len(storages[0]) == len(storages[1])
    assert not storages[0] & storages[1] - {0}


def saved_and_loaded(value: object, weights_only: bool) -> object:
    """Return what ``torch.load`` gives back of what ``torch.save`` wrote."""
    stream = io.BytesIO()
    torch.save(value, stream)
    stream.seek(0)
    loaded: object = torch.load(stream, weights_only=weights_only)
    return loaded
