"""Recording the operations of a real PyTorch function, with the views they read and write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress
from types import FrameType

import torch

from .._flags import check_flags
from .._torch import OpOverload, pytree, shows_its_parts
from .._views._view import View
from ._operation import Operation, SelfHazard, ViewUse, hazards_inside
from ._operators import (
    Arguments,
    OperatorMode,
    TensorArgument,
    random_source,
    state_of,
    tensor_arguments,
    use_of,
)
from ._storages import StorageTable, TracedView

_PACKAGE = __name__.rpartition(".")[0]


def trace(fn: Callable[..., object], *args: object, replayable: bool = False) -> list[Operation]:
    """Run a PyTorch function and return its operations, with the views they read and write.

    The function really runs, once. The trace records the operators that reach PyTorch's dispatcher
    below autograd. So it includes operators of a backward pass and of an optimizer. Making a view
    and allocating memory are not operations. A random number generator counts as memory that is
    read and written. Raises `NotImplementedError` for operators on tensors that are not strided,
    and for collectives.

    Parameters
    ----------
    fn, *args : callable and object
        Any function of tensors, for example a module, and its arguments.
    replayable : bool, optional
        Let `Operation.execute` repeat the operations. This keeps every tensor alive.

    Returns
    -------
    list of TracedOperation
        In the order in which they ran.

    Notes
    -----
    Calls that do not pass the dispatcher of the calling thread are not recorded: writes through
    NumPy or a raw pointer, other threads, the inside of a compiled kernel. A number read with
    ``item()`` is a constant. The memory of NumPy arrays is kept until the trace ends.

    Examples
    --------
    >>> import torch
    >>> from memmap.dataflow import analyze_dependencies
    >>> def step(x):
    ...     x[:2].mul_(3)
    ...     x[2:].add_(1)
    ...     return x.sum()
    >>> operations = trace(step, torch.zeros(4))
    >>> [operation.name for operation in operations]
    ['0:mul_', '1:add_', '2:sum']
    >>> analyze_dependencies(operations).as_dict()
    {'0:mul_': [], '1:add_': [], '2:sum': ['0:mul_', '1:add_']}
    """
    check_flags("trace", replayable=replayable)
    recorder = _Recorder(replayable)
    for name, tensor in _named_tensors(fn, args):
        # An unusual tensor raises when it is used, not when it is passed. Not `with suppress`: if
        # an interrupt arrives where such a block ends with an error, Python 3.11 keeps the frames.
        try:
            recorder.storages.locate(tensor, name)
        except TypeError:
            continue
    with recorder:
        fn(*args)
    return recorder.operations


class TracedOperation(Operation):
    """One PyTorch operator as it was called.

    Attributes
    ----------
    name : str
        Its position in the trace, and the operator: ``"3:copy_"``.
    function : torch._ops.OpOverload
        The operator.
    location : str
        File and line of the call outside PyTorch; empty if there is none.
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
        """Repeat the operation: the same operator on the current contents of the same memory.

        Raises `RuntimeError` if the trace was made without ``replayable=True``, or if a result has
        another shape now.
        """
        if self._replay is None:
            raise RuntimeError(
                f"{self.name}: an operation must be traced with replayable=True to be executed, "
                "got one without tensors"
            )
        self._replay()

    def self_hazards(self) -> tuple[SelfHazard, ...]:
        """Overlaps between its own arguments for which PyTorch does not define the result."""
        return self._hazards


class _Recorder(OperatorMode):
    """Records every operator that reaches the dispatcher."""

    def __init__(self, replayable: bool) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.storages = StorageTable()
        self._replayable = replayable
        self._views: dict[View, TracedView] = {}

    def run(self, function: OpOverload, args: Sequence[object], kwargs: Arguments) -> object:
        leaves = pytree.tree_leaves((args, kwargs))
        if any(shows_its_parts(leaf) for leaf in leaves):
            return NotImplemented  # torch calls again with the tensors inside the subclass
        use = use_of(function)
        if not use.moves_data:
            return function(*args, **kwargs)
        name = f"{len(self.operations)}:{function._schema.name.rpartition('::')[2]}"
        arguments = list(tensor_arguments(function, args, kwargs))
        # Before the call, because the call may resize its outputs.
        given = [self._used(name, argument) for argument in arguments]
        source = random_source(arguments, args, kwargs) if use.may_draw else None
        random_state = state_of(source)
        result = function(*args, **kwargs)
        reads = [*compress(given, [argument.reads for argument in arguments])]
        writes = [self._used(name, argument) for argument in arguments if argument.writes]
        results = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        made = [self._view(tensor, name) for tensor in results]
        old = {used.view.memory.space for used in given}
        is_new = [view.memory.space not in old for view in made]
        if results and not any(is_new) and not writes:
            return result  # a view, although it is not marked as one
        inputs, outputs = [used.view for used in reads], [used.view for used in writes]
        if use.fills_results:
            outputs += compress(made, is_new)
        # Dropout with p=0, for example, draws no numbers. The state of a device is not known.
        if source is not None and (random_state is None or state_of(source) != random_state):
            # The state of a generator, as one byte of memory.
            inputs.append(state := self._unique(View(source, 0, 1)))
            outputs.append(state)
        if inputs or outputs:
            at_risk = [] if use.writes_one_value else writes
            hazards = hazards_inside(name, reads, at_risk, use.is_elementwise)
            replay = None
            if self._replayable:
                replay = _replay_of(name, function, args, kwargs, results, is_new)
            operation = TracedOperation(name, function, _location(), hazards, replay)
            self.operations.append(operation.set_inputs(*inputs).set_outputs(*outputs))
        return result

    def _used(self, operation: str, argument: TensorArgument) -> ViewUse:
        view = self._view(argument.tensor, f"{operation}.{argument.name}")
        return ViewUse(view, argument.name, argument.item)

    def _view(self, tensor: torch.Tensor, name: str) -> TracedView:
        """The view of a tensor; `name` is used if its memory is new."""
        try:
            return self._unique(self.storages.locate(tensor, name))
        except TypeError as error:
            # Not a TypeError, which would mean "not implemented" in a Python operator.
            raise NotImplementedError(
                f"trace: the tensors of {name.partition('.')[0]} must be strided: {error}"
            ) from error

    def _unique(self, view: View) -> TracedView:
        return self._views.setdefault(view, TracedView(view))


def _named_tensors(
    fn: Callable[..., object], args: Iterable[object]
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that a function gets, with names that say where they are."""
    for prefix, argument in (("", fn), *[(f"arg{i}", arg) for i, arg in enumerate(args)]):
        if isinstance(argument, torch.nn.Module):
            for name, tensor in chain(argument.named_parameters(), argument.named_buffers()):
                yield f"{prefix}.{name}".lstrip("."), tensor
        elif prefix:
            for path, leaf in pytree.tree_flatten_with_path(argument)[0]:
                if isinstance(leaf, torch.Tensor):
                    yield f"{prefix}{pytree.keystr(path)}", leaf


def _location() -> str:
    """File and line of the innermost caller outside PyTorch and this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] != "torch" and not module.startswith(_PACKAGE):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _replay_of(
    name: str,
    function: OpOverload,
    args: Sequence[object],
    kwargs: Arguments,
    results: Sequence[torch.Tensor],
    is_new: Sequence[bool],
) -> Callable[[], None]:
    """A function that repeats an operator, with the same memory for arguments and new results."""
    # Detached tensors share the memory, but later changes of sizes and strides do not affect them.
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
