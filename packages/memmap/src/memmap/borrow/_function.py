"""Functions that keep to the rules of memory: what they may overwrite, and what they return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias, TypeVar

import torch

from .._modules._at_once import Call, at_once, keeps_grad_mode
from .._views._overlap import has_internal_overlap, overlaps
from ._evaluation import Evaluation, Origin, Plan
from ._expressions import Expression, Variable
from ._memory import Owner, Value, as_tensor, check_flag, copied, owner_of
from ._shared import SharedVariable


@dataclass(eq=False, repr=False)
class In:
    """An input of a function, and what the function may do with the argument's memory.

    Parameters
    ----------
    variable : Variable
        The input, made by `variable`; another object is a TypeError.
    borrow : bool, optional
        Whether a result may be returned in the memory of the argument. It is, where the output
        has ``borrow=True`` too and is the argument itself or a view of it.
    mutable : bool, optional
        Whether the function may overwrite the argument, as workspace. Implies `borrow`.

    Examples
    --------
    >>> from memmap.borrow import variable
    >>> In(variable("x"), mutable=True)
    In(x, borrow=True, mutable=True)
    """

    variable: Variable
    borrow: bool = False
    mutable: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.variable, Variable):
            raise TypeError(f"In: an input must be a variable, got {self.variable!r}")
        check_flag("In: borrow", self.borrow)
        check_flag("In: mutable", self.mutable)
        self.borrow |= self.mutable

    def __repr__(self) -> str:
        return f"In({self.variable!r}, borrow={self.borrow}, mutable={self.mutable})"


@dataclass(eq=False, repr=False)
class Out:
    """An output of a function, and whose memory the function may return it in.

    Parameters
    ----------
    expression : Expression
        What to compute; another object is a TypeError.
    borrow : bool, optional
        Whether the result may be returned in memory that is used again, by the next call or by
        another function: a buffer that the function keeps, a shared variable's memory, or that of
        an argument that `In` lets it borrow.

    Examples
    --------
    >>> from memmap.borrow import variable
    >>> Out(-variable("x"), borrow=True)
    Out(-x, borrow=True)
    """

    expression: Expression
    borrow: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.expression, Expression):
            raise TypeError(f"Out: an output must be an expression, got {self.expression!r}")
        check_flag("Out: borrow", self.borrow)

    def __repr__(self) -> str:
        return f"Out({self.expression!r}, borrow={self.borrow})"


Input: TypeAlias = Variable | In
Output: TypeAlias = Expression | Out
Updates: TypeAlias = (
    Mapping[SharedVariable, Expression] | Sequence[tuple[SharedVariable, Expression]]
)

T = TypeVar("T")

_numbers = count(1)


def function(
    inputs: Sequence[Input],
    outputs: Output | Sequence[Output],
    *,
    updates: Updates | None = None,
    name: str | None = None,
) -> Function:
    """Make a function that computes expressions and keeps to the rules of memory.

    By default it never writes to an argument, and never again to what it returned. ``borrow`` and
    ``mutable`` of `In` and `Out` give that up, for less memory.

    Something of another kind is a TypeError. An input that is given twice, a shared variable that
    is updated twice, and a variable that is needed and no input, is a ValueError.

    Parameters
    ----------
    inputs : sequence of Variable or In
        One for each argument. A bare variable stands for ``In(variable)``.
    outputs : Expression, Out, or a sequence of them
        What to return: one tensor, or a list. A bare expression stands for ``Out(expression)``.
    updates : mapping of SharedVariable to Expression, or sequence of pairs of them, optional
        New values of shared variables. All are computed, like the outputs, from the old values;
        then they are written, into the memory that is there if the shape is the same.
    name : str, optional
        Name to show in errors.

    Examples
    --------
    >>> from memmap.borrow import shared, variable
    >>> x, total = variable("x"), shared(torch.zeros(2))
    >>> accumulate = function([x], 2 * x, updates={total: total + x})
    >>> accumulate(torch.tensor([1.0, 2.0]))
    tensor([2., 4.])
    >>> total.get_value()
    tensor([1., 2.])
    """
    return Function(inputs, outputs, {} if updates is None else updates, name)


class Function:
    """A function of NumPy arrays or tensors that keeps to the rules of memory.

    Made by `function`. Not to be called by several threads at once.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        outputs: Output | Sequence[Output],
        updates: Updates,
        name: str | None,
    ) -> None:
        self.name = f"function {next(_numbers)}" if name is None else name
        self._inputs = [
            item if isinstance(item, In) else In(item)
            for item in self._listed("the inputs", "variables", inputs)
        ]
        self._returns_one = isinstance(outputs, (Expression, Out))
        listed = [outputs] if isinstance(outputs, (Expression, Out)) else outputs
        self._outputs = [
            item if isinstance(item, Out) else Out(item)
            for item in self._listed("the outputs", "expressions", listed)
        ]
        self._updates = self._checked_updates(updates)
        self._plan = Plan([*(out.expression for out in self._outputs), *self._updates.values()])
        self._check_inputs()
        self._in_new_memory = {out.expression for out in self._outputs if not out.borrow}
        self._in_new_memory.update(self._updates.values())
        self._buffers: dict[Expression, Owner] = {}  # kept for borrowed outputs

    @keeps_grad_mode
    def __call__(self, *args: Value) -> torch.Tensor | list[torch.Tensor]:
        """Compute the outputs, in memory of their own unless they are borrowed, and the updates.

        There is one array or strided tensor for each input, and a new value of a shared variable
        has its dtype and device: else a TypeError. A function of the user's that writes to memory
        from outside is a RuntimeError.
        """
        if len(args) != len(self._inputs):
            raise TypeError(
                f"{self.name}: there must be one argument for each of {len(self._inputs)} "
                f"input(s), got {len(args)}"
            )
        variables = [item.variable for item in self._inputs]
        arguments = [
            as_tensor(f"{self.name}, {variable!r}", value)[0]
            for variable, value in zip(variables, args, strict=True)
        ]
        given: dict[Expression, torch.Tensor] = {
            leaf: leaf.tensor for leaf in self._plan.leaves if isinstance(leaf, SharedVariable)
        }
        given.update(zip(variables, arguments, strict=True))
        # A buffer that the caller brings back as an argument is left alone.
        buffers = {
            expression: buffer.tensor
            for expression, buffer in self._buffers.items()
            if not any(overlaps(buffer.tensor, value) for value in arguments)
        }
        lent = self._lent(arguments)
        with torch.no_grad():
            done = Evaluation(self._plan, given, lent, buffers, self._in_new_memory)
            updates = self._prepared_updates(done)
            returned = self._returned(done, arguments)
            at_once(updates)
        return returned[0] if self._returns_one else returned

    def _listed(self, what: str, of: str, items: Iterable[T]) -> list[T]:
        # An expression can be indexed, and would be taken for a sequence without end.
        if isinstance(items, Expression) or not isinstance(items, Iterable):
            raise TypeError(f"{self.name}: {what} must be a sequence of {of}, got {items!r}")
        return list(items)

    def _checked_updates(self, updates: Updates) -> dict[SharedVariable, Expression]:
        items = updates.items() if isinstance(updates, Mapping) else updates
        checked: dict[SharedVariable, Expression] = {}
        for pair in self._listed("the updates", "pairs", items):
            match pair:
                case (SharedVariable() as target, new_value):
                    if target in checked:
                        raise ValueError(
                            f"{self.name}: a shared variable must be updated once, "
                            f"got {target!r} again"
                        )
                    checked[target] = Out(new_value).expression
                case (target, _):
                    raise TypeError(
                        f"{self.name}: what is updated must be a shared variable, got {target!r}"
                    )
                case _:
                    raise TypeError(
                        f"{self.name}: an update must be a shared variable and its new value, "
                        f"got {pair!r}"
                    )
        return checked

    def _check_inputs(self) -> None:
        inputs = Counter(item.variable for item in self._inputs)
        for variable in inputs - Counter([*inputs]):
            raise ValueError(f"{self.name}: an input must be given once, got {variable!r} again")
        for leaf in self._plan.leaves:
            if isinstance(leaf, Variable) and leaf not in inputs:
                raise ValueError(
                    f"{self.name}: every variable must be an input, got the outputs or updates "
                    f"need {leaf!r}"
                )

    def _lent(self, arguments: Sequence[torch.Tensor]) -> set[Expression]:
        """Inputs whose arguments may be overwritten, and in whose memory nothing else lies."""
        return {
            item.variable
            for item, value in zip(self._inputs, arguments, strict=True)
            if item.mutable
            and not (value.is_conj() or value.is_neg() or has_internal_overlap(value))
            and not any(other is not value and overlaps(other, value) for other in arguments)
            and owner_of(value) is None
        }

    def _prepared_updates(self, done: Evaluation) -> list[Call]:
        """The calls that write the new values to the shared variables."""
        calls = []
        for target, expression in self._updates.items():
            value, old = done.values[expression], target.tensor
            if (value.dtype, value.device) != (old.dtype, old.device):
                raise TypeError(
                    f"{self.name}: the new value of {target} must have its dtype and device, "
                    f"{old.dtype} on {old.device}, got {value.dtype} on {value.device}"
                )
            is_new = self._plan.n_uses[expression] == 1
            if done.origins[expression] is not Origin.OWN:
                # It may lie in a shared variable that is written to first.
                value, is_new = copied(value), True
            calls.append(target.update(value, is_new))
        return calls

    def _returned(self, done: Evaluation, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs, each copied if it lies where the caller must not find it."""
        returned: list[torch.Tensor] = []
        for position, out in enumerate(self._outputs):
            value = done.values[out.expression]
            is_own = done.origins[out.expression] is Origin.OWN
            others: list[tuple[torch.Tensor, In | Out]] = [
                *zip(arguments, self._inputs, strict=True),
                *zip(returned, self._outputs, strict=False),
            ]
            forbidden = [other for other, its in others if not (out.borrow and its.borrow)]
            forbidden += [target.tensor for target in self._updates]
            if any(overlaps(value, other) for other in forbidden) or (
                not out.borrow and not is_own and owner_of(value) is not None
            ):
                value = copied(value)
            elif is_own and out.expression not in self._in_new_memory:
                self._buffers[out.expression] = Owner(f"output {position} of {self.name}", value)
            returned.append(value)
        return returned

    def __repr__(self) -> str:
        return f"Function({self.name!r}, {self._inputs}, {self._outputs})"
