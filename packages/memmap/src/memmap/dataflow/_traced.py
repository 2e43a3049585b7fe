"""Views and operations as a trace records them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from .._views._view import View
from ._hazards import SelfHazard
from ._operation import Operation
from ._storages import TracedMemory


class TracedView:
    """One strided view of memory that a traced function touched.

    Operations that use the same bytes in the same way have the same `TracedView`.

    Attributes
    ----------
    name : str
        Name of the memory; with the bytes from its start, if the view is not all of it.
    """

    __slots__ = ("_place", "name")

    def __init__(self, place: View) -> None:
        self._place = place
        self.name = str(getattr(place.space, "name", place.space))
        span = place.span
        if span is not None and span != place.storage_span:
            self.name += f"[{span[0]}:{span[1]}]"

    @property
    def memory(self) -> View:
        """Where the view lies, in bytes, in an address space that is the memory's own."""
        place = self._place
        if not isinstance(place.space, TracedMemory):
            return place
        memory, shift = place.space.resolve()
        if memory is place.space:
            return place
        return place._replace(space=memory, storage_address=place.storage_address + shift)

    def __repr__(self) -> str:
        return f"TracedView({self.name!r})"


class TracedOperation(Operation):
    """One PyTorch operator as it was called.

    Attributes
    ----------
    name : str
        Its place in the trace, and the operator: ``"3:copy_"``.
    function : torch._ops.OpOverload
        The operator.
    location : str
        File and line that called it, outside PyTorch; empty if there is none.
    """

    def __init__(
        self,
        name: str,
        function: OpOverload,
        location: str,
        hazards: Iterable[SelfHazard],
        replay: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(name)
        self.function = function
        self.location = location
        self._hazards = tuple(hazards)
        self._replay = replay

    def execute(self) -> None:
        """Do the operation again: the same operator on the same memory as it now is.

        A trace without ``replayable=True``, and a result that now has another shape, is a
        RuntimeError.
        """
        if self._replay is None:
            raise RuntimeError(
                f"{self.name}: an operation must be traced with replayable=True to be executed, "
                "got one that keeps no tensors"
            )
        self._replay()

    def self_hazards(self) -> tuple[SelfHazard, ...]:
        """Overlaps between its own arguments that PyTorch promises nothing about.

        Overlaps that are meant are none: an in-place operator and its ``self``, an elementwise
        one whose input is its output.
        """
        return self._hazards


def replay_of(
    name: str,
    function: OpOverload,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    results: Sequence[torch.Tensor],
    is_new: Sequence[bool],
) -> Callable[[], None]:
    """A call of an operator once more, with the same memory for its arguments and new results."""
    # Detached tensors share the memory, but not later changes of sizes and strides.
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs))
    kept = [tensor.detach() for tensor in compress(results, is_new)]
    # Some operators return more for a backward pass.
    records_gradients = torch.is_grad_enabled()

    def replay() -> None:
        with torch.set_grad_enabled(records_gradients):
            result = function(*args, **kwargs)
        again = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for old, new in zip(kept, compress(again, is_new), strict=True):
            if old.shape != new.shape:
                raise RuntimeError(
                    f"{name}: a replayed result must have the shape {tuple(old.shape)}, "
                    f"got {tuple(new.shape)}"
                )
            old.copy_(new)

    return replay
