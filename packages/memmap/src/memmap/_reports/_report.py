"""Report on the memory that tensors hold, share and waste: a table, a dictionary, a picture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike

import torch

from .._flags import check_flags
from ._checkpoint import read_checkpoint
from ._garbage_collection import collector_paused
from ._html import html_table
from ._numbers import Entries, Numbers, StorageReport, entries_of, storages_of, total
from ._picture import picture
from ._table import COLUMNS, notes_of, rows_of, table


class MemoryReport:
    """Bytes that tensors hold, per device, storage and name; ``print`` shows a table.

    All numbers are exact, in bytes, and from the moment when the report was made:

    - *allocated*: bytes of the storage. Storages that have memory in common count as one.
    - *spanned*: from the first byte that a tensor touches to the last.
    - *touched*: bytes that at least one tensor touches.
    - *shared*: bytes that are touched under at least two names.
    - *wasted*: bytes that no tensor touches, ``allocated - touched``.
    - *separate*: bytes if each name got contiguous memory of its own, as in a checkpoint that
      stores every tensor alone.

    The data are not read. Meta and fake tensors are reported as if they had memory.

    Parameters
    ----------
    source : torch.nn.Module or mapping, or any object with `attributes`
        A module is reported with its parameters, buffers and their gradients, by path. A mapping
        is reported with all tensors, arrays, views and modules in it, also in mappings, lists,
        tuples and sets within it: a state dict, the state of an optimizer, a checkpoint. A tensor
        with several names is listed with all of them. A module or container that occurs twice is
        listed under its first path. Sparse and nested tensors and wrappers are reported by their
        components.
    attributes : bool, optional
        Also follow the attributes of modules, tensors and all other objects: caches, the states of
        quantised weights, packed weights. The source may then be any object. Weights that a kernel
        has packed (quantised layers of torch, mkldnn) have the size that their class tells.

    Raises
    ------
    TypeError
        For other sources, and for objects in a mapping unless `attributes` is set.
    StorageError
        If an element lies outside of its storage.

    Attributes
    ----------
    storages : tuple of StorageReport
        Largest first.
    unplaced : tuple of str
        Names of tensors whose place in memory is unknown. No number includes them.

    Examples
    --------
    >>> flat = torch.zeros(8)
    >>> report = MemoryReport({"weight": flat[:6], "bias": flat[6:], "both": flat[4:7]})
    >>> report.totals
    Numbers(allocated=32, spanned=32, touched=32, shared=12, wasted=0, separate=44)
    >>> print(MemoryReport({"weight": flat[:6]}))
    allocated  spanned  touched  shared  wasted  separate  tensor
         32 B     24 B     24 B     0 B     8 B      24 B  weight: float32 6
         32 B     24 B     24 B     0 B     8 B      24 B  total on cpu
    """

    @collector_paused()
    def __init__(self, source: object, *, attributes: bool = False) -> None:
        check_flags("MemoryReport", attributes=attributes)
        if not (attributes or isinstance(source, (torch.nn.Module, Mapping))):
            raise TypeError(
                "MemoryReport: the source must be a module or a mapping with tensors in it, "
                f"got {type(source).__name__} (attributes=True reports on any object, "
                "MemoryReport.from_file on a file)"
            )
        self._set(entries_of(source, attributes))

    def _set(self, entries: Entries) -> None:
        self.storages: tuple[StorageReport, ...] = tuple(storages_of(entries.placed))
        self.unplaced: tuple[str, ...] = tuple(entries.unplaced)

    @classmethod
    @collector_paused()
    def from_file(cls, path: str | PathLike[str]) -> MemoryReport:
        """Report on a checkpoint without executing or loading anything from it.

        Only the descriptions of the tensors are read. Nothing is imported and no tensor is made.
        Tensors are also found in objects of unknown classes.

        Parameters
        ----------
        path : str or path-like
            A file that ``torch.save`` wrote (from torch 1.6 on), or a safetensors file. Storages
            are reported on the device from which they were saved. In safetensors files each tensor
            has its own storage, on the device ``file``. For a sharded checkpoint, the index of its
            shards (``model.safetensors.index.json``) or its folder. In a folder of
            ``torch.distributed.checkpoint``, the chunks of tensors are reported, on the device
            ``file``. In a folder without an index, the names of several files come before those of
            their tensors. Shards share memory if they are links to one file.

        Raises
        ------
        CheckpointError
            If the file is not a checkpoint, is damaged, or its tensors do not fit into it.
        OSError
            If the file cannot be read.
        """
        report = cls.__new__(cls)
        report._set(read_checkpoint(path))
        return report

    @property
    def totals(self) -> Numbers:
        """Bytes of all storages together."""
        return total(self.devices.values())

    @cached_property
    def devices(self) -> dict[str, Numbers]:
        """Bytes of all storages of each device."""
        by_device: dict[str, list[Numbers]] = {}
        for storage in self.storages:
            by_device.setdefault(storage.device, []).append(storage.numbers)
        return {device: total(numbers) for device, numbers in by_device.items()}

    @collector_paused()
    def to_dict(self) -> dict[str, object]:
        """Return the whole report as JSON types.

        The keys are ``totals``; ``devices`` (totals by name); ``storages`` (for each its device,
        its numbers and its ``tensors``, which have ``names``, ``dtype``, ``shape``, ``offset`` of
        the first byte in the storage, numbers and ``shares_with``); and ``unplaced``.

        Examples
        --------
        >>> MemoryReport({"x": torch.zeros(2)}).to_dict()["storages"][0]["tensors"]
        [{'names': ['x'], 'dtype': 'float32', 'shape': [2], 'offset': 0, 'spanned': 8, \
'touched': 8, 'shared': 0, 'separate': 8, 'shares_with': []}]
        """
        return {
            "totals": self.totals._asdict(),
            "devices": {device: numbers._asdict() for device, numbers in self.devices.items()},
            "storages": [
                {
                    "device": storage.device,
                    **storage.numbers._asdict(),
                    "tensors": [tensor.as_dict() for tensor in storage.tensors],
                }
                for storage in self.storages
            ],
            "unplaced": list(self.unplaced),
        }

    @collector_paused()
    def to_svg(self) -> str:
        """Draw every storage in SVG: a bar for its bytes, and a row for each tensor in it.

        Examples
        --------
        >>> MemoryReport({"x": torch.zeros(2)}).to_svg().startswith("<svg")
        True
        """
        return picture(self.storages)

    @collector_paused()
    def __str__(self) -> str:
        return table(self.storages, self.devices, self.unplaced)

    @collector_paused()
    def _repr_html_(self) -> str:
        caption = "; ".join(notes_of(self.storages, self.unplaced))
        return html_table(COLUMNS, rows_of(self.storages, self.devices), caption, Numbers._fields)

    def __repr__(self) -> str:
        return f"MemoryReport({len(self.storages)} storages, {self.totals})"


MemReporter = MemoryReport
"""Another name of `MemoryReport`, as in torch-named-linops."""
