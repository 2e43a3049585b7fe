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
        assert {id(parameter) for parameter in kept} == {id(parameter) for parameter in made}, (
            f"A, A.H and A.N must hold the Parameters that they were given, {made}, got {kept}"
        )

    def test_shallow_copy_shares_tensors_and_no_dictionary(self) -> None:
        A = self.make_linop()
        other = copy.copy(A)
        assert all(a is b for a, b in zip(tensors_of(A), tensors_of(other), strict=True)), (
            f"copy.copy(A) must hold the tensors of A, {tensors_of(A)}, got {tensors_of(other)}"
        )
        for name in ("_parameters", "_buffers", "_modules"):
            assert vars(other)[name] is not vars(A)[name], (
                f"copy.copy(A) must have a dictionary {name} of its own, got that of A"
            )
        x = self.make_input(A)
        self.agree(other(x), A(x), "copy.copy(A)(x)")
        assert other.H is not A.H, "copy.copy(A).H must be an adjoint of its own, got A.H"

    def test_deep_copy_is_equal_and_shares_no_memory(self) -> None:
        A = self.make_linop()
        other = self.checked_deep_copy(A, self.make_input(A), "A")
        y = A(self.make_input(A))
        self.agree(other.H(y), A.H(y), "copy.deepcopy(A).H(y)")
        kinds = [[tensor.requires_grad for tensor in tensors_of(linop)] for linop in (A, other)]
        assert kinds[0] == kinds[1], (
            f"copy.deepcopy(A) must have requires_grad={kinds[0]}, got {kinds[1]}"
        )

    def test_deep_copies_of_derived_operators_are_equal_and_independent(self) -> None:
        for applied in self.derived(self.make_linop()):
            self.checked_deep_copy(*applied)

    def checked_deep_copy(self, A: NamedLinop, x: Tensor, name: str) -> NamedLinop:
        """Return a deep copy, checked to have equal values in as many new storages."""
        other = copy.deepcopy(A)
        self.agree(other(x), A(x), f"copy.deepcopy({name})(x)")
        storages = [
            {tensor.untyped_storage().data_ptr() for tensor in tensors_of(linop)}
            for linop in (A, other)
        ]
        counts = [len(addresses) for addresses in storages]
        assert counts[0] == counts[1], (
            f"copy.deepcopy({name}) must have {counts[0]} storages, got {counts[1]}"
        )
        shared = storages[0] & storages[1] - {0}
        assert not shared, f"copy.deepcopy({name}) must share no storage, got {len(shared)}"
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
        for linop, x, name in self.derived(self.make_linop())[:3]:
            other = carry(linop)
            assert isinstance(other, NamedLinop), f"{name} must stay an operator, got {other!r}"
            assert repr(other) == repr(linop), f"{name} must stay\n{linop!r}\ngot\n{other!r}"
            self.agree(other(x), linop(x), f"{name}(x), loaded,")

    def test_state_dict_carries_all_values(self) -> None:
        A = self.make_linop()
        state = saved_and_loaded(A.state_dict(), weights_only=True)
        other = copy.deepcopy(A)
        derived = [other.H, other.N]
        for tensor in tensors_of(other):
            tensor.detach().zero_()
        other.load_state_dict(state)  # type: ignore[arg-type] # what was saved
        for (linop, x, name), loaded in zip(self.derived(A), (other, *derived), strict=False):
            self.agree(loaded(x), linop(x), f"{name}(x) with the values of A.state_dict()")

    def test_repr_reads_no_tensor(self) -> None:
        A = self.make_linop()
        for linop in (A, A.H, A.N):
            with NoOperations():  # type: ignore[no-untyped-call]
                shown = repr(linop)
            assert shown == repr(linop), f"repr must be {linop!r}, got {shown}"


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
