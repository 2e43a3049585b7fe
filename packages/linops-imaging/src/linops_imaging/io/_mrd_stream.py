"""MRD streams (version 2 of ISMRMRD's format), through the package mrd-python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from .._extras import optional_module
from ._ismrmrd_fields import COUNTERS, HEAD
from ._ismrmrd_header import Encoding, encodings_of, header_of
from ._ismrmrd_lines import FileLines, Rows
from ._reader_errors import reader_errors

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]

_MAGIC = b"yardl"
_OLD_NAMES = {"col_dir": "read_dir", "line_dir": "phase_dir"}
"""Names of fields in version 1."""
_NEEDED = {
    *(*COUNTERS, "flags", "number_of_samples", "active_channels", "trajectory_dimensions"),
    *("discard_pre", "discard_post", "center_sample", "encoding_space_ref", "sample_time_us"),
    *("image_index", "image_series_index"),
}
"""Fields that are 0 if no header has them. Others are left out then."""


def is_stream(path: Path) -> bool:
    """Return whether a file is a stream in binary form."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def lines_in(path: Path) -> FileLines:
    """Return the lines in a stream. It is read twice: the headers first, then what is chosen."""
    owner = "read_ismrmrd"
    header, *_ = _items(path, owner, only_header=True)
    lines, counters, others = [], [], Counter[str]()
    for item in _items(path, owner):
        if _kind(item) != "Acquisition":
            others[_kind(item)] += 1
            continue
        _check(path, item.value)
        lines.append(_line(item.value))
        counters.append(vars(item.value.head.idx))
    text = _header(header)
    heads = np.zeros(0, HEAD)
    if lines:
        idx = _structured(_columns(counters))
        heads = _structured({**_columns(lines), "idx": idx})

    def rows(chosen: Array) -> Rows:
        acquisitions = (item.value for item in _items(path, owner) if _kind(item) == "Acquisition")
        wanted = (line for line, is_wanted in zip(acquisitions, chosen, strict=True) if is_wanted)
        for number, line in enumerate(wanted):
            n_samples = line.data.shape[1]
            yield number, line.data, line.trajectory.T.reshape(n_samples, -1)

    return FileLines(text, encodings_of(text), heads, rows, dict(others))


def images_in(
    path: Path, choose: Callable[[Columns], Array]
) -> tuple[Columns, list[str], Iterator[Array]]:
    """Return headers, attributes and data of the images in a stream that are chosen."""
    owner = "read_ismrmrd_images"

    def images() -> Iterator[Any]:
        return (item.value for item in _items(path, owner) if _is_image(item))

    kept = [(_record(image.head), _attributes(image.meta)) for image in images()]
    header = _columns([record for record, _ in kept])
    chosen = choose(header)
    attributes = [text for (_, text), is_wanted in zip(kept, chosen, strict=True) if is_wanted]
    data = (image.data for image, is_wanted in zip(images(), chosen, strict=True) if is_wanted)
    return {name: values[chosen] for name, values in header.items()}, attributes, data


def _items(path: Path, owner: str, *, only_header: bool = False) -> Iterator[Any]:
    """Yield the items of a stream, or its header."""
    mrd = optional_module("mrd", owner, "mrd")
    kind = (
        f"an MRD stream for mrd-python {version('mrd-python')} (each version reads the streams "
        "that it wrote)"
    )
    with reader_errors(owner, path.name, kind), path.open("rb") as file:
        reader = mrd.BinaryMrdReader(file)
        header = reader.read_header()
        if header is None:
            raise ValueError(f"{owner}: {path.name} must have a header, got none")
        yield from [header] if only_header else reader.read_data()


def _kind(item: Any) -> str:
    return type(item).__name__.rpartition(".")[2]


def _is_image(item: Any) -> bool:
    return _kind(item).startswith("Image") and _kind(item) != "ImageArray"


def _header(header: Any) -> str:
    """Return the encodings of a header as XML."""

    def xyz(of: Any) -> Any:
        return of.x, of.y, of.z

    def centre(limit: Any, size: int) -> int:
        return size // 2 if limit is None else limit.center

    encodings = []
    for one in header.encoding:
        spaces = one.encoded_space, one.recon_space
        encoded, recon = ((xyz(space.matrix_size), xyz(space.field_of_view_mm)) for space in spaces)
        limits, (_, y, z) = one.encoding_limits, encoded[0]
        centres = (
            centre(limits.kspace_encoding_step_1, y),
            centre(limits.kspace_encoding_step_2, z),
        )
        told = one.trajectory_description
        pairs = [*told.user_parameter_long, *told.user_parameter_double] if told else []
        parameters = {pair.name: float(pair.value) for pair in pairs}
        kind = one.trajectory.name.lower()
        encodings.append(Encoding(kind, *encoded, *recon, centres, parameters))
    system = header.acquisition_system_information
    return header_of(encodings, (system and system.receiver_channels) or 0)


def _check(path: Path, line: Any) -> None:
    n_samples, shape = line.data.shape[1], line.trajectory.shape
    if line.trajectory.size and shape[1] != n_samples:
        raise ValueError(
            f"read_ismrmrd: the trajectory of a line of {path.name} must be (D, {n_samples}), got "
            f"{shape}; the converter ismrmrd_to_mrd of mrd-python writes its transpose"
        )
    if getattr(line, "phase", None) is not None:
        raise ValueError(
            f"read_ismrmrd: lines of {path.name} must have no phase of their own, got one of the "
            f"shape {line.phase.shape}; apply it to the samples before"
        )


def _line(line: Any) -> dict[str, Any]:
    """Return the fields of the header of a line in the units of version 1."""
    fields = _record(line.head)
    if "sample_time_ns" in fields:
        fields["sample_time_us"] = (fields.pop("sample_time_ns") or 0) / 1000
    fields["active_channels"], fields["number_of_samples"] = line.data.shape
    fields["trajectory_dimensions"] = line.trajectory.shape[0] if line.trajectory.size else 0
    return fields


def _record(head: Any) -> dict[str, Any]:
    """Return the fields of a header by their names in version 1."""
    fields = {_OLD_NAMES.get(name, name): value for name, value in vars(head).items()}
    return {name: getattr(value, "value", value) for name, value in fields.items() if name != "idx"}


def _attributes(meta: Mapping[str, Sequence[Any]]) -> str:
    """Return attributes in the XML of version 1."""
    root = ElementTree.Element("ismrmrdMeta")
    for name, values in meta.items():
        entry = ElementTree.SubElement(root, "meta")
        ElementTree.SubElement(entry, "name").text = name
        for value in values:
            ElementTree.SubElement(entry, "value").text = str(value.value)
    return ElementTree.tostring(root, encoding="unicode")


def _columns(records: Sequence[Mapping[str, Any]]) -> Columns:
    """Return each field of headers as an array; lists are filled up with zeros."""
    columns = {}
    for name in records[0] if records else ():
        values = [record[name] for record in records]
        told = [value for value in values if value is not None and np.size(value)]
        if not told and name not in _NEEDED:
            continue
        width = max(map(np.size, told), default=1)
        is_real = any(np.asarray(value).dtype.kind == "f" for value in told)
        kind = "u8" if name == "flags" else "f4" if is_real or name == "sample_time_us" else "i8"
        column = np.zeros((len(values), width), kind)
        for row, value in zip(column, values, strict=True):
            if value is not None:
                row[: np.size(value)] = value
        columns[name] = column if any(map(np.ndim, told)) else column[:, 0]
    return columns


def _structured(columns: Columns) -> Array:
    """Return columns as one array with fields."""
    kinds = [(name, values.dtype, values.shape[1:]) for name, values in columns.items()]
    table = np.zeros(len(next(iter(columns.values()))), kinds)
    for name, values in columns.items():
        table[name] = values
    return table
