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
    """A strided tensor under all its names: several, if one object is registered as several.

    Its dtype is ``"?"`` if it is not known, its layout None if it is empty.
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


class Entries:
    """Tensors that lie in storages, and names of tensors of which it is unknown where they lie."""

    def __init__(self) -> None:
        self.placed: list[Entry] = []
        self.unplaced: list[str] = []
        # The objects are kept with their entries, so that no id is used twice.
        self._known: dict[int, tuple[object, Entry]] = {}

    def put(self, value: object, entry: Entry) -> None:
        """Add the entry of an object."""
        self._known[id(value)] = value, entry
        self.placed.append(entry)

    def of(self, value: object) -> Entry | None:
        """The entry of an object, if there is one."""
        return self._known[id(value)][1] if id(value) in self._known else None

    def add(self, name: str, value: object) -> None:
        """Add a tensor, an array or a view; a tensor that is made of tensors is taken apart."""
        known = self.of(value)
        if known is not None:
            known.names.append(name)
        elif isinstance(value, torch.Tensor):
            self._add_tensor(name, value)
        elif isinstance(value, np.ndarray):
            self.put(value, Entry([name], view_of(value), str(value.dtype), value.shape, "cpu"))
        elif isinstance(value, View):
            device = str(value.space) if isinstance(value.space, (str, torch.device)) else "?"
            self.put(value, Entry([name], value, "?", value.sizes, device))
        else:
            raise TypeError(
                f"{name}: a value must be a tensor, a NumPy array or a View, "
                f"got {type(value).__name__}"
            )

    def _add_tensor(self, name: str, tensor: torch.Tensor) -> None:
        view = composite = None
        if not is_lazy(tensor):
            try:
                view = view_of(tensor)
            except TypeError:
                composite = take_apart(tensor)
        if view is not None:
            dtype, device = str(tensor.dtype).removeprefix("torch."), str(tensor.device)
            self.put(tensor, Entry([name], view, dtype, tuple(tensor.shape), device))
        elif composite is not None:
            for part, part_name in zip(composite.parts, composite.names, strict=True):
                self.add(f"{name}.{part_name}", part)
        else:
            self.unplaced.append(name)


def entries_of(source: torch.nn.Module | Mapping[str, torch.Tensor | Array | View]) -> Entries:
    """Named tensors of a module or a mapping."""
    if not isinstance(source, (torch.nn.Module, Mapping)):
        raise TypeError(
            f"MemoryReport: the source must be a module or a mapping of names to tensors, "
            f"got {type(source).__name__}"
        )
    entries = Entries()
    named = source.items() if isinstance(source, Mapping) else _module_tensors(source)
    for name, value in named:
        entries.add(str(name), value)
    return entries


def _module_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for prefix, part in module.named_modules():
        for key, tensor in (*part._parameters.items(), *part._buffers.items()):
            if tensor is not None:
                name = f"{prefix}.{key}" if prefix else key
                yield name, tensor
                if tensor.is_leaf and tensor.grad is not None:
                    yield f"{name}.grad", tensor.grad
