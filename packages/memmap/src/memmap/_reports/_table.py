"""A report as a table for terminals."""

from __future__ import annotations

from collections.abc import Sequence

from .._bytes_text import bytes_text
from ._numbers import Numbers, StorageReport, TensorNumbers

_MAX_PARTNERS = 3
# The tensor column has any width, so it comes last; the numbers then fit into 80 columns.
COLUMNS = (*Numbers._fields, "tensor")


def printable(text: str) -> str:
    r"""Escape characters that would move the cursor of a terminal or control it.

    >>> print(printable("weight\x1b[2J"))
    weight\x1b[2J
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(
    storages: Sequence[StorageReport], devices: dict[str, Numbers], unplaced: Sequence[str]
) -> str:
    """The report as lines of aligned columns. A storage with one tensor takes one line."""
    rows = [[*COLUMNS], *rows_of(storages, devices)]
    *columns, _ = zip(*rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join([*map(str.rjust, numbers, widths), printable(text)]) for *numbers, text in rows
    ]
    return "\n".join([*lines, *notes_of(storages, unplaced)])


def rows_of(storages: Sequence[StorageReport], devices: dict[str, Numbers]) -> list[list[str]]:
    """The texts of all rows: storages, the tensors in them, and the totals."""
    rows = []
    for storage in storages:
        if len(storage.tensors) == 1:
            rows.append([*map(bytes_text, storage.numbers), _described(storage.tensors[0])])
        else:
            heading = f"storage of {len(storage.tensors)} tensors on {storage.device}:"
            rows.append([*map(bytes_text, storage.numbers), heading])
            rows += map(_row_of_tensor, storage.tensors)
    rows += [
        [*map(bytes_text, numbers), f"total on {device}"] for device, numbers in devices.items()
    ]
    return rows


def notes_of(storages: Sequence[StorageReport], unplaced: Sequence[str]) -> list[str]:
    """Lines about tensors that are in no row."""
    notes = [f"{printable(name)}: memory unknown, not counted" for name in unplaced]
    return notes if storages or unplaced else ["no tensors"]


def _row_of_tensor(tensor: TensorNumbers) -> list[str]:
    """A row for one of several tensors of a storage; only storages are allocated and wasted."""
    spanned, touched, shared, separate = map(bytes_text, tensor[2:6])
    return ["", spanned, touched, shared, "", separate, "  " + _described(tensor)]


def _described(tensor: TensorNumbers) -> str:
    entry = tensor.entry
    shape = "x".join(map(str, entry.shape)) or "scalar"
    text = f"{' = '.join(entry.names)}: {entry.dtype} {shape}"
    names = set(entry.names) if tensor.shares_with else ()
    others = [other for other in tensor.shares_with if other not in names]
    if others:
        text += f", shares with {', '.join(others[:_MAX_PARTNERS])}"
    if len(others) > _MAX_PARTNERS:
        text += f" and {len(others) - _MAX_PARTNERS} more"
    return text
