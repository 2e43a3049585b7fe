"""A function of the user's may write only to memory that it has allocated itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from ..dataflow._dispatch import OperatorMode
from ..dataflow._operators import tensor_arguments, use_of


class WriteGuard(OperatorMode):
    """Refuses an operator that would write to memory from outside, before it does.

    Parameters
    ----------
    what : str
        What is being computed, to begin an error with.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        # The weak references keep the identities from being used again.
        self._own: dict[int, StorageWeakRef] = {}

    def run(self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Check one operator, and run it."""
        given = list(tensor_arguments(func, args, kwargs))
        if use_of(func).moves_data:
            for argument in given:
                if argument.writes and self._identity(argument.tensor) not in self._own:
                    raise RuntimeError(
                        f"{self._what}: a function must write only to memory that it has "
                        f"allocated itself, got {func} on memory from outside"
                    )
        inputs = {self._identity(argument.tensor) for argument in given}
        result = func(*args, **kwargs)
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
                storage = leaf.untyped_storage()
                if storage._cdata not in inputs and storage._cdata not in self._own:
                    reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]  # torch's
                    self._own[storage._cdata] = reference
        return result

    @staticmethod
    def _identity(tensor: torch.Tensor) -> int | None:
        return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None
