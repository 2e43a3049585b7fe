"""Functions that follow the memory rules: which memory they overwrite, and which they return."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias, TypeVar

import torch

from .._flags import check_flags
from .._modules._at_once import Call, at_once, keeps_grad_mode
from .._views._overlap import overlaps
from ._evaluation import Evaluation, EvaluationOrder, Origin
from ._expressions import Expression, Variable
from ._memory import Owner, Value, as_tensor, copied, is_writable, owner_of
from ._shared import SharedVariable


@dataclass(eq=False)
class In:
    """An input of a function, and what the function may do with the memory of the argument.

    Parameters
    ----------
    variable : Variable
        The input, made by `variable`. Raises `TypeError` for other objects.
    borrow : bool, optional
        Allow results in the memory of the argument. A result lies there if its output also has
        ``borrow=True`` and is the argument itself or a view of it.
    mutable : bool, optional
        Allow the function to overwrite the argument, as workspace. This implies `borrow`.

    Examples
    --------
    >>> from memmap.borrow import variable
    >>> In(variable("x"), mutable=True)
    In(variable=x, borrow=True, mutable=True)
    """

    variable: Variable
    borrow: bool = False
    mutable: bool = False

    def __post_init__(self) -> None:
        check_flags("In", borrow=self.borrow, mutable=self.mutable)
        if not isinstance(self.variable, Variable):
            raise TypeError(f"In: an input must be a variable, got {self.variable!r}")
        self.borrow |= self.mutable


@dataclass(eq=False)
class Out:
    """An output of a function, and the memory in which the function may return it.

    Parameters
    ----------
    expression : Expression
        The expression to compute. Raises `TypeError` for other objects.
    borrow : bool, optional
        Allow the result in memory that will be used again, by the next call or by another
        function: a buffer that the function keeps, the memory of a shared variable, or the memory
        of an argument that `In` lets the function borrow.

    Examples
    --------
    >>> from memmap.borrow import variable
    >>> Out(-variable("x"), borrow=True)
    Out(expression=-x, borrow=True)
    """

    expression: Expression
    borrow: bool = False

    def __post_init__(self) -> None:
        check_flags("Out", borrow=self.borrow)
        if not isinstance(self.expression, Expression):
            raise TypeError(f"Out: an output must be an expression, got {self.expression!r}")


Input: TypeAlias = Variable | In
ReturnedValue: TypeAlias = Expression | Out
Updates: TypeAlias = (
    Mapping[SharedVariable, Expression] | Sequence[tuple[SharedVariable, Expression]]
)

T = TypeVar("T")

_numbers = count(1)


def function(
    inputs: Sequence[Input],
    outputs: ReturnedValue | Sequence[ReturnedValue],
    *,
    updates: Updates | None = None,
    name: str | None = None,
) -> Function:
    """Make a function that computes expressions and follows the memory rules.

    By default it never writes to an argument, and never again to memory that it returned. With
    ``borrow`` and ``mutable`` of `In` and `Out` you give up these promises to save memory.

    Raises `TypeError` for objects of other types. Raises `ValueError` if an input is given twice,
    if a shared variable is updated twice, or if a needed variable is not an input.

    Parameters
    ----------
    inputs : sequence of Variable or In
        One for each argument. A bare variable means ``In(variable)``.
    outputs : Expression, Out, or a sequence of them
        What to return: one tensor, or a list. A bare expression means ``Out(expression)``.
    updates : mapping of SharedVariable to Expression, or sequence of pairs of them, optional
        New values of shared variables. All are computed from the old values, like the outputs.
        Then they are written into the existing memory if the shape is the same.
    name : str, optional
        The name to show in errors.

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
    """A function of NumPy arrays or tensors that follows the memory rules.

    Make one with `function`. Do not call it from several threads at once.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        outputs: ReturnedValue | Sequence[ReturnedValue],
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
        self._plan = EvaluationOrder(
            [*(out.expression for out in self._outputs), *self._updates.values()]
        )
        self._check_inputs()
        self._in_new_memory = {out.expression for out in self._outputs if not out.borrow}
        self._in_new_memory.update(self._updates.values())
        self._buffers: dict[Expression, Owner] = {}  # of borrowed outputs

    @keeps_grad_mode
    def __call__(self, *args: Value) -> torch.Tensor | list[torch.Tensor]:
        """Compute the outputs and the updates.

        Outputs that are not borrowed have their own memory. Pass one array or strided tensor for
        each input. Raises `TypeError` for other arguments, and if the new value of a shared
        variable has another dtype or device. Raises `RuntimeError` if a function of the user
        writes to memory from outside.
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
        # Do not use a buffer that the caller passes back as an argument.
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

    def _listed(self, what: str, kind: str, items: Iterable[T]) -> list[T]:
        # An expression can be indexed, so Python would treat it as an endless sequence.
        if isinstance(items, Expression) or not isinstance(items, Iterable):
            raise TypeError(f"{self.name}: {what} must be a sequence of {kind}, got {items!r}")
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
                        f"{self.name}: the target of an update must be a shared variable, "
                        f"got {target!r}"
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
                    f"{self.name}: every variable in outputs or updates must be an input, got "
                    f"{leaf!r}, which is not"
                )

    def _lent(self, arguments: Sequence[torch.Tensor]) -> set[Expression]:
        """Inputs whose arguments may be overwritten, because no other value lies there."""
        return {
            item.variable
            for item, value in zip(self._inputs, arguments, strict=True)
            if item.mutable
            and not (value.is_conj() or value.is_neg())
            and is_writable(value)
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
                # The value may lie in a shared variable that is written to first.
                value, is_new = copied(value), True
            calls.append(target.update(value, is_new))
        return calls

    def _returned(self, done: Evaluation, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs. An output is copied if the caller must not get its memory."""
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
