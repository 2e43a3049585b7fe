"""Files from which a solver continues after its process has ended."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import (
    Processes,
    check_integer,
    is_recorded,
    optional_module,
    written_aside,
)

from ._precision import at_least_single
from ._space import Space

State: TypeAlias = Mapping[str, Any]
"""Numbers, strings and tensors by name, and mappings and lists of these."""


class Checkpoint:
    """The files of one solve: the newest state and the one before it, of this process.

    The first process writes the file itself, others add ``.rank1`` and so on. A state is written to
    a temporary file, which then replaces the file, so a file is always complete. No process writes
    a state before all of them have the last one. So there is always a state that all of them have.
    """

    def __init__(self, owner: str, path: object, every: int, processes: Processes | None) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"{owner}: checkpoint must be the path of a file, got {path!r}")
        self.owner, self.processes = owner, processes
        self.every = check_integer(owner, "checkpoint_every", every, 1)
        self.problem: State = {}
        self.holders: Mapping[str, object] = {}
        self._unsaved: Mapping[str, object] = {}
        self.loaded = -1
        """The number of the step that was loaded."""
        number = 0 if processes is None else processes.number
        newest = Path(path)
        if number:
            newest = newest.with_name(f"{newest.name}.rank{number}")
        self.newest = newest.resolve()  # a link to a file stays a link
        self.previous = self.newest.with_name(f"{self.newest.name}.previous")

    def begin(self, problem: Mapping[str, object], holders: Mapping[str, object]) -> State | None:
        """Load the newest state into objects, whose numbers and tensors are saved from now on.

        Parameters
        ----------
        problem : mapping
            The fingerprint of the problem; see :meth:`SolverSteps.fingerprint`.
        holders : mapping of objects
            All that a step takes from the one before is in their public attributes: numbers,
            strings and tensors.

        Returns
        -------
        mapping, or None
            The number, the values and the reasons of the newest step that all processes have; None
            if there is none.

        Raises
        ------
        ValueError
            On all processes, if a file of one of them belongs to another problem or cannot be read:
            strings and numbers of the problem must be equal, vectors agree to rounding.
        """
        vectors = {name: pair for name, pair in problem.items() if isinstance(pair, tuple)}
        others = [name for name, value in problem.items() if isinstance(value, Tensor)]
        if others or not vectors:
            raise TypeError(
                f"{self.owner}: the fingerprint of a problem must have vectors as pairs (space, "
                f"tensor), got {others or 'no vector'}; write (Space(), y)"
            )
        tensors = [vector for _, vector in vectors.values()]
        check_not_recorded(self.owner, *tensors, advice="call it")
        first, precision = tensors[0], torch.finfo(tensors[0].dtype).eps
        described: dict[str, object] = {
            "shape": [*first.shape],
            "dtype": str(first.dtype),
            "device": first.device.type,
            "processes": self.processes.count if self.processes else 1,
        }
        for name, value in problem.items():
            is_of_numpy = getattr(value, "shape", None) == ()  # torch.load reads no such numbers
            described[name] = value.item() if is_of_numpy else value  # type: ignore[attr-defined]
        for name, (space, vector) in vectors.items():
            described[name] = _sketch(self.owner, space, at_least_single(vector))
        self.problem, precision = described, min(64 * precision, precision**0.5)
        states: dict[int, tuple[Path, State]] = {}

        def read() -> None:
            if not self.newest.parent.is_dir():
                raise ValueError(f"the folder of {self.newest} must exist, got none")
            for path in (self.previous, self.newest):
                if path.exists():
                    content = self._read(path, precision)
                    states[content["iteration"]] = path, content["state"]

        self._together(read, "what a checkpoint is of")
        iterations = self._of_all([*states], "the iterations of checkpoints")
        common = set.intersection(*map(set, iterations))
        path, saved = states[max(common)] if common else (self.newest, {})
        state: State = _loaded(self.owner, saved, first.device)
        del saved
        states.clear()

        def settle() -> None:
            """Delete states that other processes do not have."""
            if not common:
                self.newest.unlink(missing_ok=True)
                self.previous.unlink(missing_ok=True)
            elif path == self.previous:
                self.previous.replace(self.newest)

        self._together(settle, "the start from a checkpoint")
        self.holders = holders
        self._unsaved = self._constants()
        if not state:
            return None
        for name, holder in holders.items():
            vars(holder).update(state[name])
        step: State = state["step"]
        self.loaded = step["iteration"]
        return step

    def keep(self, iteration: int, values: Mapping[str, float], reasons: list[str | None]) -> None:
        """Save the state if it is time for that, or the last step, on all processes."""
        is_due = (iteration and iteration % self.every == 0) or None not in reasons
        if is_due and iteration > self.loaded:
            numbers = {name: float(value) for name, value in values.items()}
            state: dict[str, object] = {
                name: {
                    key: _saved(self.owner, key, value)
                    for key, value in self._attributes_of(holder).items()
                    if not _is_constant(value)
                }
                for name, holder in self.holders.items()
            }
            self._check_constants()
            state["step"] = {"iteration": iteration, "values": numbers, "reasons": reasons}
            content = {
                "solver": self.owner,
                "problem": self.problem,
                "iteration": iteration,
                "state": state,
            }
            self._together(lambda: self._write(content), "the writing of a checkpoint")
        if None not in reasons:
            # A gradient may keep this object, but needs no state.
            self.holders = self._unsaved = {}

    def _attributes_of(self, holder: object) -> dict[str, object]:
        """Return the public attributes, without other holders."""
        others = [*map(id, self.holders.values())]
        return {k: v for k, v in _public(holder).items() if id(v) not in others}

    def _constants(self) -> dict[str, object]:
        """Return what is not saved: functions and objects of linops, with their attributes."""
        found: dict[str, object] = {}
        for holder in self.holders.values():
            for name, value in self._attributes_of(holder).items():
                if _is_constant(value) and not isinstance(value, (torch.dtype, torch.device)):
                    parts = {f"{name}.{key}": part for key, part in _public(value).items()}
                    found |= {name: value, **parts}
        return found

    def _check_constants(self) -> None:
        """Raise an error if a step has changed what is not saved."""
        for name, value in self._constants().items():
            if value is not self._unsaved.get(name):
                raise TypeError(
                    f"{self.owner}: {name} must not change, because it is not saved, got another "
                    f"{type(value).__name__}; return its object in holders(), or begin the name "
                    "with an underscore and make it in restored()"
                )

    def _write(self, content: Mapping[str, object]) -> None:
        """Write a state, and keep the one before it."""
        with written_aside(self.newest) as (path,):
            with path.open("wb") as file:
                torch.save(content, file)
                file.flush()
                os.fsync(file.fileno())
            if self.newest.exists():
                shutil.copymode(self.newest, path)
                self.newest.replace(self.previous)
        if os.name == "posix":  # the new names are in the folder, which has its own buffer
            folder = os.open(self.newest.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _read(self, path: Path, precision: float) -> dict[str, Any]:
        remedy = f"delete {self.newest} and {self.previous.name}, or give another file"
        if self.processes is not None and self.processes.count > 1:
            remedy += " (on all ranks)"
        try:
            with zipfile.ZipFile(path) as parts:  # torch does not compare the checksums
                if (damaged := parts.testzip()) is not None:
                    raise ValueError(f"damaged: {damaged}")
            content = torch.load(path, weights_only=True, map_location="cpu", mmap=True)
            if content["solver"] != self.owner:
                raise ValueError("a file of another kind")
            problem = content["problem"]
        except Exception as error:
            raise ValueError(
                f"{path} must be a checkpoint of {self.owner}, got a file that cannot be read "
                f"({type(error).__name__}); {remedy}"
            ) from error
        for name in [*self.problem, *problem]:
            wanted, saved = self.problem.get(name), problem.get(name)
            if not _is_same(wanted, saved, precision):
                values = "" if isinstance(wanted, Tensor) else f": {wanted} here, {saved} there"
                raise ValueError(
                    f"the checkpoint {path} must be of this problem, got one that differs in "
                    f"{name}{values}; {remedy}"
                )
        return dict(content)

    def _together(self, action: Callable[[], None], what: str) -> None:
        """Do it on all processes; if it fails on one, raise an error on all of them."""
        failure: Exception | None = None
        try:
            action()
        except Exception as error:  # an error of one process must not leave the others waiting
            failure = error
        is_refused = isinstance(failure, ValueError)
        words = None if failure is None else str(failure)
        if failure is not None and not is_refused:
            words = f"{what} must succeed, got {type(failure).__name__}: {failure}"
        for number, (refused, text) in enumerate(self._of_all((is_refused, words), what)):
            if text is not None:
                is_one = self.processes is None or self.processes.count == 1
                where = "" if is_one else f"rank {number}: "
                raise (ValueError if refused else OSError)(
                    f"{self.owner}: {where}{text}"
                ) from failure

    def _of_all(self, value: Any, what: str) -> list[Any]:
        return [value] if self.processes is None else self.processes.all_gather(value, what)


def check_not_recorded(owner: str, *tensors: Tensor, advice: str) -> None:
    """Refuse a checkpoint of steps through which gradients flow."""
    if is_recorded(*tensors):
        raise ValueError(
            f"{owner}: checkpoint must not be given if gradients flow through the steps, "
            f"got tensors that need gradients; {advice} under torch.no_grad()"
        )


def _sketch(owner: str, space: Space, vector: Tensor) -> Tensor:
    """Return two numbers that another vector does not have: a product and the norm."""
    unit = space.unit(vector) if space.systems else space.unit_of(owner, vector, is_output=True)
    vector = vector / unit
    numbers = [space.inner(space.random_like(vector), vector), space.norm(vector)]
    unit = torch.as_tensor(unit, dtype=torch.float64, device="cpu")
    return torch.stack([(unit * number.cpu().to(torch.complex128)).flatten() for number in numbers])


def _saved(owner: str, name: str, value: object) -> object:
    """Return a number, a string, a tensor or a mapping of these as files have it."""
    if isinstance(value, Tensor):
        return value
    if type(value) is dict:
        return {key: _saved(owner, f"{name}[{key!r}]", number) for key, number in value.items()}
    # A number of NumPy has its precision, with which the steps go on.
    number = value.item() if getattr(value, "shape", None) == () else value  # type: ignore[attr-defined]
    if type(number) not in (bool, int, float, complex, str, type(None)):
        raise TypeError(
            f"{owner}: {name} must be a number, a string, a tensor or None to be saved, got "
            f"{type(value).__name__}; begin its name with an underscore if it is a constant"
        )
    return number if number is value else (str(value.dtype), number)  # type: ignore[attr-defined]


def _public(holder: object) -> dict[str, object]:
    """Return the public attributes."""
    return {k: v for k, v in getattr(holder, "__dict__", {}).items() if not k.startswith("_")}


def _is_constant(value: object) -> bool:
    is_of_linops = type(value).__module__.startswith("linops_") and not isinstance(value, Enum)
    return callable(value) or is_of_linops or isinstance(value, (torch.dtype, torch.device))


def _is_same(wanted: object, saved: object, precision: float) -> bool:
    if not isinstance(wanted, Tensor) or not isinstance(saved, Tensor):
        return type(wanted) is type(saved) and wanted == saved
    if wanted.shape != saved.shape:
        return False
    apart = (wanted - saved).abs() <= precision * wanted[-1:].abs()
    return bool(apart[:-1].all() and apart[-1:].all())


def _loaded(owner: str, state: Any, device: torch.device) -> Any:
    """Return a copy of a state, on a device, that does not refer to the file."""
    if isinstance(state, Mapping):
        return {name: _loaded(owner, value, device) for name, value in state.items()}
    if isinstance(state, tuple):
        kind, number = state
        return optional_module("numpy", owner).dtype(kind).type(number)
    return state.to(device, copy=True) if isinstance(state, Tensor) else state
