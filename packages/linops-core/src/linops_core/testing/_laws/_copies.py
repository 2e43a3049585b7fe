"""Laws of copies, files and constructors: shared tensors stay shared."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..._base._linop import NamedLinop
from ..._safe_globals import safe_globals
from ._factories import LinopFactories, tensors_of


class CopyLaws(LinopFactories):
    """A shallow copy shares all tensors, a deep copy none, and a file restores the operator."""

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
        other = self.checked_deep_copy(A, self.make_input(A))
        y = A(self.make_input(A))
        assert self.close(other.H(y), A.H(y))
        kinds = [[tensor.requires_grad for tensor in tensors_of(linop)] for linop in (A, other)]
        assert kinds[0] == kinds[1]

    def test_deep_copies_of_derived_operators_are_equal_and_independent(self) -> None:
        for linop, x in self.derived(self.make_linop()):
            self.checked_deep_copy(linop, x)

    def checked_deep_copy(self, A: NamedLinop, x: Tensor) -> NamedLinop:
        """Return a deep copy, checked to have equal values in as many new storages."""
        other = copy.deepcopy(A)
        assert self.close(other(x), A(x))
        storages = [
            {tensor.untyped_storage().data_ptr() for tensor in tensors_of(linop)}
            for linop in (A, other)
        ]
        assert len(storages[0]) == len(storages[1])
        assert not storages[0] & storages[1] - {0}
        return other

    def test_pickle_keeps_the_operator(self) -> None:
        self.check_kept(lambda linop: pickle.loads(pickle.dumps(linop)))

    def test_files_keep_the_operator(self) -> None:
        self.check_kept(lambda linop: saved_and_loaded(linop, weights_only=False))

    def test_files_are_read_back_without_running_code(self) -> None:
        also = self.also_saved()
        with torch.serialization.safe_globals([*safe_globals(), *(also or ())]):
            if also is not None:
                self.check_kept(lambda linop: saved_and_loaded(linop, weights_only=True))
                return
            try:
                saved_and_loaded(self.make_linop(), weights_only=True)
            except pickle.UnpicklingError:
                return
        raise AssertionError("a file with objects of another library must be refused")

    def check_kept(self, carry: Callable[[NamedLinop], object]) -> None:
        """Check that ``carry`` returns an equal operator."""
        for linop, x in self.derived(self.make_linop())[:3]:
            other = carry(linop)
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
        for linop in (A, A.H, A.N):
            with NoOperations():  # type: ignore[no-untyped-call]
                shown = repr(linop)
            assert shown.splitlines()[0] == repr(linop).splitlines()[0]


class NoOperations(TorchDispatchMode):
    """A mode in which no operation on a tensor may run."""

    def __torch_dispatch__(self, operation: object, *args: object) -> None:
        """Refuse the operation."""
        raise AssertionError(f"no tensor must be read or written here, got {operation}")


def saved_and_loaded(value: object, weights_only: bool) -> object:
    """Return an object after ``torch.save`` and ``torch.load``."""
    stream = io.BytesIO()
    torch.save(value, stream)
    stream.seek(0)
    loaded: object = torch.load(stream, weights_only=weights_only)
    return loaded
