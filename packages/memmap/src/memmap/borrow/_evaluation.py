"""Computing expressions, if possible in memory that is no longer needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from functools import lru_cache
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._torch import OpOverload, pytree
from .._views._address import same_storage
from ..dataflow._operators import Arguments, OperatorMode, tensor_arguments, use_of
from ._expressions import Allocating, AppliedFunction, Expression, Operand, TensorFunction


class Origin(Enum):
    """The owner of the memory of a value."""

    FOREIGN = "not to be overwritten"
    LENT = "of an argument that may be overwritten"
    OWN = "allocated for this call"


class EvaluationOrder:
    """The order in which to compute some expressions."""

    def __init__(self, results: Sequence[Expression]) -> None:
        self.leaves: list[Expression] = []  # variables, including shared ones
        self.steps: list[AppliedFunction] = []  # all other expressions, each after its operands
        self.n_uses = Counter(results)  # as operands and as results
        seen: set[Expression] = set()
        stack = [*reversed(results)]  # no recursion, for long chains
        while stack:
            expression = stack[-1]
            if waiting := [e for e in expression.expressions if e not in seen]:
                stack += waiting
                continue
            if expression not in seen:
                seen.add(expression)
                self.n_uses.update(expression.expressions)
                if isinstance(expression, AppliedFunction):
                    self.steps.append(expression)
                else:
                    self.leaves.append(expression)
            stack.pop()


class Evaluation:
    """One run of a plan. Afterwards it has the results and the owners of their memory."""

    def __init__(
        self,
        plan: EvaluationOrder,
        given: Mapping[Expression, torch.Tensor],  # values of the leaves
        lent: Set[Expression],  # leaves that may be overwritten, because nothing else lies there
        buffers: Mapping[Expression, torch.Tensor],  # free memory for results
        in_new_memory: Set[Expression],  # results that must not lie in lent memory
    ) -> None:
        self.values = dict(given)
        self.origins = {e: Origin.LENT if e in lent else Origin.FOREIGN for e in given}
        self._n_uses = plan.n_uses.copy()
        self._buffers = buffers
        self._in_new_memory = in_new_memory
        for step in plan.steps:
            if isinstance(step, Allocating):
                self._allocate_or_reuse(step)
            else:
                self._apply(step)
            for operand in step.expressions:
                self._n_uses[operand] -= 1
                if not self._n_uses[operand]:
                    self.values.pop(operand, None)

    def _allocate_or_reuse(self, step: Allocating) -> None:
        """Compute a step in memory that is no longer needed, or otherwise in new memory."""
        operands = [self._value(operand, step) for operand in step.operands]
        memory, self.origins[step] = None, Origin.OWN
        if candidates := self._reusable(step):
            kinds = map(_kind_of, operands)
            kind = _kind_of_result(step.function, torch.get_default_dtype(), *kinds)
            for result, origin in candidates:
                if (result.shape, result.dtype, result.device) == kind:
                    memory, self.origins[step] = result, origin
                    break
        self.values[step] = step.function(*operands, out=memory)

    def _reusable(self, step: Allocating) -> list[tuple[torch.Tensor, Origin]]:
        """Memory in which a step may be computed, with its owner; the best first."""
        free: dict[Origin, list[tuple[torch.Tensor, Origin]]] = {origin: [] for origin in Origin}
        for expression, n_uses in Counter(step.expressions).items():
            # True if all remaining uses are in this step.
            if step.is_elementwise and self._n_uses[expression] == n_uses:
                origin = self.origins[expression]
                free[origin].append((self.values[expression], origin))
        lent = [] if step in self._in_new_memory else free[Origin.LENT]
        kept = [(self._buffers[step], Origin.FOREIGN)] if step in self._buffers else []
        return [*lent, *kept, *free[Origin.OWN]]

    def _apply(self, step: AppliedFunction) -> None:
        """Call a function of the user, which may return a view of any of its operands."""
        operands = [self.values[o] if isinstance(o, Expression) else o for o in step.operands]
        with _WriteGuard(step.name):
            result = step.function(*operands)
        if not isinstance(result, torch.Tensor):
            raise TypeError(
                f"{step.name}: a function must return a tensor, got {type(result).__name__}"
            )
        if result.layout is not torch.strided:
            raise TypeError(f"{step.name}: a result must be strided, got layout {result.layout}")
        for expression, value in self.values.items():
            if same_storage(value, result):
                self.origins[expression] = Origin.FOREIGN
        self.values[step] = result.detach()
        self.origins[step] = Origin.FOREIGN

    def _value(self, operand: Operand, step: Allocating) -> torch.Tensor | complex:
        """Value of an operand; a number in first place as a tensor, because torch requires one."""
        if isinstance(operand, Expression):
            return self.values[operand]
        if operand is not step.operands[0] or len(step.expressions) == 2:
            return operand
        other = self.values[step.expressions[0]]
        dtype = torch.result_type(other, operand)
        return torch.full((), operand, dtype=dtype, device=other.device)


def _kind_of(operand: torch.Tensor | complex) -> tuple[Any, ...]:
    """What the kind of a result depends on."""
    if isinstance(operand, torch.Tensor):
        return operand.shape, operand.dtype, operand.device
    return type(operand), operand


# A function is called again and again with operands of the same kinds.
@lru_cache(maxsize=1024)
def _kind_of_result(
    function: TensorFunction, default: torch.dtype, *kinds: Any
) -> tuple[torch.Size, torch.dtype, torch.device]:
    """Shape, dtype and device of a result, without computing it, if `default` is the dtype."""
    on_meta = [
        torch.empty(kind[0], dtype=kind[1], device="meta") if len(kind) == 3 else kind[1]
        for kind in kinds
    ]
    result = function(*on_meta)
    # A tensor without dimensions may be on the CPU beside others that are not.
    _, _, device = max([kind for kind in kinds if len(kind) == 3], key=lambda kind: len(kind[0]))
    return result.shape, result.dtype, device


class _WriteGuard(OperatorMode):
    """Refuses operators that write to memory that was not allocated in the guarded block."""

    def __init__(self, owner: str) -> None:
        super().__init__()
        self._owner = owner
        # The weak references keep the identities from being used again.
        self._allocated: dict[int | None, StorageWeakRef] = {}

    def run(self, function: OpOverload, args: Sequence[object], kwargs: Arguments) -> object:
        given = list(tensor_arguments(function, args, kwargs))
        if use_of(function).moves_data:
            for argument in given:
                if argument.writes and _identity(argument.tensor) not in self._allocated:
                    raise RuntimeError(
                        f"{self._owner}: a function must write only to memory that it "
                        f"allocated itself, got {function} on memory from outside"
                    )
        inputs = {None, *(_identity(argument.tensor) for argument in given)}
        result = function(*args, **kwargs)
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and _identity(leaf) not in inputs:
                self._allocated[_identity(leaf)] = StorageWeakRef(leaf.untyped_storage())
        return result


def _identity(tensor: torch.Tensor) -> int | None:
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None
