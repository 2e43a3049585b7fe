"""Parameters that solvers share, with their documentation, and the options that all of them have.

Each solver documents what is special to it. :func:`with_options` adds the rest.

Parameters
----------
A : NamedLinop or function
    The operator. A function maps a tensor to a new tensor.
y : Tensor
    The data: floating-point numbers, real or complex, of the shape and precision that A returns.
x0 : Tensor, optional
    The first x, of the shape and dtype of the result, which are those that the adjoint of A returns
    for y. Zero by default. No solver writes into it.
adjoint : function, optional
    The adjoint of A. A function needs it, a NamedLinop has one.
like : Tensor, optional
    A tensor of the shape, dtype and device of the input of A. A function needs it.
sizes : mapping of str to int, optional
    Sizes of those dimensions of the input that A does not know.
seed : int
    What random vectors are drawn from.
max_num_iters : int
    Largest number of steps.
progress : bool
    Whether to show a progress bar.
tqdm_kwargs : mapping, optional
    Options of tqdm. They show the bar, too.
callback : function, optional
    Gets a :class:`Step` after every step; see :class:`Record`.
checkpoint : str or path, optional
    A file, from which the same call continues if the process has ended. The files and what is
    compared are those of :func:`conjugate_gradients`.
checkpoint_every : int
    Number of steps between checkpoints.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypedDict, TypeVar, cast

from linops_core.siblings import is_in_vmap

from ._reports import Callback

Solver = TypeVar("Solver", bound=Callable[..., object])


class Watching(TypedDict, total=False):
    """Options of all solvers, which show their steps."""

    progress: bool
    tqdm_kwargs: Mapping[str, object] | None
    callback: Callback | None


class Checkpointed(Watching, total=False):
    """Options of solvers that also continue from a file."""

    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int


DEFAULTS = Checkpointed(
    progress=False, tqdm_kwargs=None, callback=None, checkpoint=None, checkpoint_every=10
)


def with_options(
    options: type | None = None, like: Callable[..., object] | None = None
) -> Callable[[Solver], Solver]:
    """Let ``help`` and editors show what a solver takes: options, and what each parameter is.

    ``options`` are those that it takes as ``**watching``. What its docstring does not say is that
    of the solver that it is ``like``, or of this module.
    Within vmap, an error of torch about reading a value says what the solver needs; other errors,
    as of an operator, stay as they are.
    """

    def shown(function: Solver) -> Solver:
        signature = inspect.signature(function)

        @wraps(function)
        def solver(*arguments: Any, **given: Any) -> Any:
            try:
                return function(*arguments, **given)
            except RuntimeError as error:
                is_reading = type(error) is RuntimeError and _READING.match(str(error))
                if not is_reading or not is_in_vmap():
                    raise
                raise RuntimeError(f"{function.__name__}: {_IN_VMAP}, got {error}") from error

        parameters = [*signature.parameters.values()]
        if options is not None:
            parameters[-1:] = [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=DEFAULTS[name],  # type: ignore[literal-required]
                    annotation=kind.__forward_arg__,
                )
                for name, kind in options.__annotations__.items()
            ]
            vars(solver)["__signature__"] = signature.replace(parameters=parameters)
        if solver.__doc__ and (known := like.__doc__ if like else __doc__):  # not in python -OO
            try:
                solver.__doc__ = _completed(inspect.cleandoc(solver.__doc__), known, parameters)
            except KeyError as error:
                raise TypeError(f"{solver.__name__}: its docstring must describe {error}") from None
        return cast(Solver, solver)

    return shown


_IN_VMAP = (
    "in torch.func.vmap, no value of a batch must be read: call the solver in a loop, or "
    "conjugate_gradients with batch_dims, or with gtol=0 and ltol=0, or power_method with tol=0"
)

# How torch begins its messages within vmap where a value is read, random numbers are drawn, or
# autograd starts anew.
_READING = re.compile(
    r"vmap: It looks like you're (calling \.item\(\)|attempting to use a Tensor in some data-dep)"
    r"|vmap: We do not support batching operators that can \w+ dynamic shape"
    r"|vmap: called random operation|Cannot access data pointer of Tensor that doesn't have storage"
    r"|You are attempting to call Tensor\.requires_grad_\(\)"
)

# The section of parameters, or where it would be: before all others.
_SECTION = re.compile(r"(?:\n\nParameters\n-+\n(.*?))?(?=\n\n[A-Z]\w+\n---|\Z)", re.DOTALL)


def _completed(own: str, known: str, parameters: Iterable[inspect.Parameter]) -> str:
    """Return a docstring in which each parameter has an entry, in their order.

    An entry without a type goes on where the known one ends.
    """
    entries, known_entries, written = _entries(own), _entries(known), {}
    for parameter in parameters:
        head, text = entries.get(parameter.name, ("", ""))
        if " : " not in head:
            head, known_text = known_entries[parameter.name]
            text = known_text + text
        if parameter.annotation in ("Operators", "Vectors") and "sequence" not in head:
            head = re.sub("(, optional)?$", r", or a sequence of them\1", head, count=1)
        written[head] = text
    section = "\n".join(head + text for head, text in written.items())
    return _SECTION.sub(lambda _: f"\n\nParameters\n----------\n{section}", own, count=1)


def _entries(docstring: str) -> dict[str, tuple[str, str]]:
    """Return the first line and the others of the entry of each parameter."""
    section = _SECTION.search(docstring)
    lines = re.split(r"^(\S.*)\n", (section and section[1]) or "", flags=re.MULTILINE)[1:]
    pairs = zip(lines[::2], lines[1::2], strict=True)
    return {
        name: (head, f"\n{text.rstrip()}")
        for head, text in pairs
        for name in head.partition(" : ")[0].split(", ")
    }


def reading_options(watching: Checkpointed) -> dict[str, object]:
    """Return the options that need values of tensors, so that a graph cannot have them."""
    return {name: watching.get(name) for name in [*DEFAULTS][:-1]}
