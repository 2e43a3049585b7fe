"""Reading a ``.safetensors`` file: a JSON header, then the bytes of the tensors."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from .._errors import CheckpointError
from .._views._view import View
from ._numbers import Entries, Entry

_MAX_HEADER = 100_000_000  # bytes, as in the format's own readers
_PREFIX = 8  # bytes of the length of the header

# The name in torch, and the bits of an element.
_DTYPES = {
    "F64": ("float64", 64), "F32": ("float32", 32), "F16": ("float16", 16),
    "BF16": ("bfloat16", 16), "C64": ("complex64", 64), "BOOL": ("bool", 8),
    "I64": ("int64", 64), "I32": ("int32", 32), "I16": ("int16", 16), "I8": ("int8", 8),
    "U64": ("uint64", 64), "U32": ("uint32", 32), "U16": ("uint16", 16), "U8": ("uint8", 8),
    "F8_E4M3": ("float8_e4m3fn", 8), "F8_E5M2": ("float8_e5m2", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8), "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8), "F6_E2M3": ("float6_e2m3", 6),
    "F6_E3M2": ("float6_e3m2", 6), "F4": ("float4_e2m1", 4),
}  # fmt: skip


def read_safetensors(path: Path) -> Entries:
    """Tensors of a safetensors file, read from its header, which must begin with a brace.

    Each tensor has its own storage, as when a reader allocates it; addresses are places in the
    file. The tensors must fill the file: README of the safetensors project, section "Format".
    """
    header, start, stop = _read_header(path)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError("__metadata__ must map names to texts, got something else")
    entries = Entries()
    for name, described in header.items():
        low, high, dtype, shape = _checked(name, described)
        view = View("file", start + low, high - low, sizes=(high - low,), strides=(1,))
        entries.put(described, Entry([name], view, dtype, shape, "file"))
    reached = start
    for (low, high), name in sorted((e.view.storage_span, e.names[0]) for e in entries.placed):
        if low != reached:
            raise CheckpointError(
                f"{name}: a tensor must begin where the previous one ends, "
                f"at byte {reached - start}, got {low - start}"
            )
        reached = high
    if reached != stop:
        raise CheckpointError(
            f"the tensors must fill the file, {stop - start} bytes after the header, "
            f"got {reached - start}"
        )
    return entries


def _read_header(path: Path) -> tuple[dict[str, Any], int, int]:
    """The header, the place of the first byte after it, and the size of the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_PREFIX), "little")
        if length > min(_MAX_HEADER, size - _PREFIX):
            raise CheckpointError(
                f"the header must fit into the file and have at most {_MAX_HEADER} bytes, "
                f"got {length} bytes in a file of {size}"
            )
        text = file.read(length)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_without_duplicates)
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the header must be JSON, got something else: {error}") from error
    return header, _PREFIX + length, size


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise CheckpointError("the header must have each name once, got a name twice")
    return made


def _checked(name: str, described: object) -> tuple[int, int, str, tuple[int, ...]]:
    """Begin, end, type and shape of one tensor."""
    match described:
        case {"dtype": code, "shape": [*shape], "data_offsets": [low, high], **others} if (
            isinstance(code, str) and code in _DTYPES
        ):
            dtype, n_bits = _DTYPES[code]
            are_sizes = all(type(size) is int and size >= 0 for size in (*shape, low, high))
            if are_sizes and not others and 8 * (high - low) == n_bits * prod(shape):
                return low, high, dtype, tuple(shape)
    raise CheckpointError(
        f"{name}: a tensor must have a dtype of the format, a shape, and data_offsets that are as "
        f"far apart as these need, got {described!r:.200}"
    )
