"""What a report is made of: tensors with their names and where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from .._errors import StorageError
from .._modules._composite import take_apart
from .._views._address import view_of
from .._views._arrays import Array
from .._views._layout import Layout
from .._views._view import View


@dataclass(slots=True)
class Entry:
    """A strided tensor under all its names.

    Attributes
    ----------
    names : list of str
        One, or several if one object is registered under several names.
    view : View
        Where it lies.
    dtype : str
        As torch or NumPy calls it; ``"?"`` if not known.
    shape : tuple of int
        Elements in each dimension.
    device : str
        Where the storage is.
    layout : Layout or None
        The bytes that it touches; None if it is empty.
    """

    names: list[str]
    view: View
    dtype: str
    shape: tuple[int, ...]
    device: str
    layout: Layout | None = field(init=False)

    def __post_init__(self) -> None:
        try:
            self.layout = self.view.layout()
        except StorageError as error:
            raise StorageError(f"{self.names[0]}: {error}") from error

    @property
    def separate(self) -> int:
        """Bytes of a contiguous copy."""
        return prod(self.view.sizes) * self.view.itemsize


@dataclass(slots=True)
class Entries:
    """Everything that a report has to account for.

    Attributes
    ----------
    placed : list of Entry
        Tensors that lie in storages.
    unplaced : list of str
        Names of tensors of which nothing is known about how they lie in memory.
    """

    placed: list[Entry] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)


def entries_of(source: torch.nn.Module | Mapping[str, torch.Tensor | Array | View]) -> Entries:
    """Named tensors of a module or a mapping; tensors made of tensors are taken apart.

    >>> layer = torch.nn.Linear(2, 3)
    >>> [(entry.names, entry.shape) for entry in entries_of(layer).placed]
    [(['weight'], (3, 2)), (['bias'], (3,))]
    """
    named: Iterator[tuple[str, object]]
    if isinstance(source, torch.nn.Module):
        named = _module_tensors(source)
    elif isinstance(source, Mapping):
        named = ((str(name), value) for name, value in source.items())
    else:
        raise TypeError(
            f"MemoryReport: the source must be a module or a mapping of names to tensors, "
            f"got {type(source).__name__}"
        )
    collector = _Collector()
    for name, value in named:
        collector.add(name, value)
    return collector.entries


def _module_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for prefix, part in module.named_modules():
        for tensors in (part._parameters, part._buffers):
            for key, tensor in tensors.items():
                if tensor is not None:
                    name = f"{prefix}.{key}" if prefix else key
                    yield name, tensor
                    if tensor.is_leaf and tensor.grad is not None:
                        yield f"{name}.grad", tensor.grad


class _Collector:
    """Entries, and which objects they stand for."""

    def __init__(self) -> None:
        self.entries = Entries()
        # The objects are kept with their entries, so that no id is used twice.
        self.known: dict[int, tuple[object, Entry]] = {}

    def add(self, name: str, value: object) -> None:
        if id(value) in self.known:
            self.known[id(value)][1].names.append(name)
        elif isinstance(value, torch.Tensor):
            self.add_tensor(name, value)
        elif isinstance(value, np.ndarray):
            self.put(Entry([name], view_of(value), str(value.dtype), value.shape, "cpu"), value)
        elif isinstance(value, View):
            device = str(value.space) if isinstance(value.space, (str, torch.device)) else "?"
            self.put(Entry([name], value, "?", value.sizes, device), value)
        else:
            raise TypeError(
                f"{name}: a value must be a tensor, a NumPy array or a View, "
                f"got {type(value).__name__}"
            )

    def add_tensor(self, name: str, tensor: torch.Tensor) -> None:
        if is_lazy(tensor):
            self.entries.unplaced.append(name)
            return
        try:
            view = view_of(tensor)
        except TypeError:
            composite = take_apart(tensor)
            if composite is None:
                self.entries.unplaced.append(name)
                return
            for part, part_name in zip(composite.parts, composite.names, strict=True):
                self.add(f"{name}.{part_name}", part)
            return
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.put(Entry([name], view, dtype, tuple(tensor.shape), str(tensor.device)), tensor)

    def put(self, entry: Entry, value: object) -> None:
        self.known[id(value)] = value, entry
        self.entries.placed.append(entry)
