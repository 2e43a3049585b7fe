"""Raw data of MRI scanners in ISMRMRD's HDF5 files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._checks import check_number, check_real
from .._extras import needed
from ._damaged import MOST_DEFLATED, damaged
from ._ismrmrd_header import encodings_of
from ._ismrmrd_scan import COUNTERS, IsmrmrdScan

Array = np.ndarray[Any, Any]

# The fields of AcquisitionHeader that are used; its flags are numbered from 1.
_FIELDS = {
    "flags": "u8",
    "number_of_samples": "u2",
    "active_channels": "u2",
    "discard_pre": "u2",
    "discard_post": "u2",
    "center_sample": "u2",
    "encoding_space_ref": "u2",
    "trajectory_dimensions": "u2",
    "sample_time_us": "f4",
}
_SELECTABLE = (
    "number_of_samples",
    "active_channels",
    "trajectory_dimensions",
    "center_sample",
    "sample_time_us",
    *COUNTERS,
)
_NOISE, _CALIBRATION, _CALIBRATION_AND_IMAGING, _REVERSED = 19, 20, 21, 22
_OTHER_KINDS = {
    23: "navigation",
    24: "phase correction",
    26: "feedback",
    27: "dummy",
    28: "feedback",
    29: "coil correction",
    30: "phase stabilization",
    31: "phase stabilization",
}
_KINDS = ("imaging", "calibration", "noise", *dict.fromkeys(_OTHER_KINDS.values()))
_DETAILS = (
    "measurement_uid",
    "scan_counter",
    "acquisition_time_stamp",
    "physiology_time_stamp",
    "position",
    "read_dir",
    "phase_dir",
    "slice_dir",
    "patient_table_position",
    "user_int",
    "user_float",
)
_AT_ONCE = 64
"""Lines that are read together."""


def read_ismrmrd(
    path: str | os.PathLike[str],
    dataset: str = "dataset",
    lines: str = "imaging",
    encoding: int = 0,
    *,
    where: Mapping[str, float] | None = None,
) -> IsmrmrdScan:
    """Return the raw data in an ISMRMRD file: lines of k-space, where they belong, and noise.

    ``scan.on_grid()`` puts Cartesian lines onto a grid.

    Parameters
    ----------
    path : path
        An HDF5 file.
    dataset : str
        The HDF5 group of the dataset.
    lines : str
        Which lines to read: "imaging", "calibration", "noise", "navigation", "phase correction",
        "feedback", "dummy", "coil correction" or "phase stabilization". Lines with the flag of both
        calibration and imaging are in both of these. ``left_out`` counts the lines that are neither
        selected nor noise.
    encoding : int
        Index of the encoding in the header, if there are several.
    where : mapping of str to number, optional
        Select among these lines those with these numbers in their header: a counter,
        ``number_of_samples``, ``active_channels``, ``trajectory_dimensions``, ``center_sample`` or
        ``sample_time_us``. For example, ``{"contrast": 0}``.

    Returns
    -------
    IsmrmrdScan

    Raises
    ------
    ImportError
        If h5py is not installed (the extra ``ismrmrd``).
    FileNotFoundError
        If the file is missing.
    TypeError, ValueError
        If an argument is not one of the values above; if the file is not an ISMRMRD file, is
        damaged, refers to other files or has no such lines; or if the lines differ in their numbers
        of samples, coils or dimensions, or in their dwell times (``where`` selects some).

    References
    ----------
    S. J. Inati et al., "ISMRM Raw data format: a proposed standard for MRI raw datasets", Magnetic
    Resonance in Medicine 77 (2017).
    """
    if lines not in _KINDS:
        raise ValueError(f"read_ismrmrd: lines must be one of {_KINDS}, got {lines!r}")
    check_number("read_ismrmrd", "encoding", encoding, 0)
    where = dict(where or {})
    if strange := where.keys() - {*_SELECTABLE}:
        raise ValueError(
            f"read_ismrmrd: where must name some of {_SELECTABLE}, got {sorted(map(str, strange))}"
        )
    for name, number in where.items():
        check_real("read_ismrmrd", f"where[{name!r}]", number, 0)
    path = Path(path)
    h5py = needed("h5py", "read_ismrmrd", "ismrmrd")
    size = path.stat().st_size
    with damaged("read_ismrmrd", path.name, "an ISMRMRD file"), h5py.File(path, "r") as file:
        group = file
        for name in filter(None, dataset.split("/")):
            group = _member(h5py, group, name, h5py.Group)
        header = _header(_member(h5py, group, "xml", h5py.Dataset))
        encodings = encodings_of(header)
        if encoding >= len(encodings):
            raise ValueError(
                f"read_ismrmrd: encoding must be one of the {len(encodings)} in the header, got "
                f"{encoding}"
            )
        table = _member(h5py, group, "data", h5py.Dataset)
        heads = _heads(h5py, table, size)
        kinds = _kinds(heads, lines, encoding)
        for name, number in where.items():
            values = heads["idx"][name] if name in COUNTERS else heads[name]
            kinds[(kinds == lines) & (values != number)] = "not selected"
        chosen = kinds == lines
        if not chosen.any():
            raise ValueError(
                f"read_ismrmrd: there must be lines of kind {lines}"
                f"{f' where {where}' if where else ''}, got {_counted(kinds)}"
            )
        kspace, trajectory = _lines(table, heads, chosen)
        dwell_time = _only(heads, chosen, "sample_time_us")
        noise = (kinds == "noise") & ~chosen
        if {*heads["active_channels"][noise]} != {len(kspace)} or (
            len({*heads["sample_time_us"][noise]}) > 1
        ):
            noise[:] = False
        noise_lines = None
        if noise.any():
            noise_lines = torch.from_numpy(
                np.concatenate([x for _, x, _ in _rows(table, heads, noise)], -1)
            )
    heads_of = heads[chosen]
    return IsmrmrdScan(
        kspace=kspace,
        counters={name: _integers(heads_of["idx"][name]) for name in COUNTERS},
        centre_sample=_integers(heads_of["center_sample"]),
        discarded=_integers(np.stack([heads_of["discard_pre"], heads_of["discard_post"]], -1)),
        is_reversed=torch.from_numpy(_has_flag(heads_of, _REVERSED)),
        trajectory=trajectory,
        noise=noise_lines,
        dwell_time=dwell_time,
        noise_dwell_time=_only(heads, noise, "sample_time_us") if noise.any() else None,
        encoding=encodings[encoding],
        details=_details(heads_of),
        left_out=_counted(kinds[~chosen & ~noise]),
        header=header,
    )


def _member(h5py: Any, parent: Any, name: str, kind: Any) -> Any:
    """Return the member ``name`` of a group; refuse links, which may lead to other files."""
    link = parent.get(name, getlink=True)
    found = parent[name] if isinstance(link, h5py.HardLink) else link
    if not isinstance(found, kind):
        what = "nothing" if found is None else type(found).__name__
        raise ValueError(
            f"read_ismrmrd: {name!r} in {parent.name} must be a {kind.__name__} of the file, got "
            f"{what}; there are {list(parent)[:10]}"
        )
    if kind is h5py.Dataset and (found.external or found.is_virtual):
        raise ValueError(f"read_ismrmrd: {name!r} must be in the file, got values in other files")
    return found


def _header(dataset: Any) -> str:
    """Return the XML: a string, or an array of one."""
    if dataset.dtype.kind not in "OS" or dataset.size != 1:
        raise ValueError(
            f"read_ismrmrd: the header must be one string, got {dataset.size} of {dataset.dtype}"
        )
    text = np.asarray(dataset[()]).reshape(-1)[0]
    if not isinstance(text, bytes):  # a reference to something else
        raise ValueError(f"read_ismrmrd: the header must be one string, got {type(text)}")
    return text.decode("utf-8")


def _heads(h5py: Any, table: Any, size: int) -> Array:
    """Return the headers of all lines; refuse wrong fields, and sizes that exceed the file."""
    columns = table.dtype.fields or {}
    head = columns["head"][0].fields if "head" in columns else None
    idx = head["idx"][0].fields if head and "idx" in head else None
    expected = [(head, name, kind) for name, kind in _FIELDS.items()]
    expected += [(idx, name, "u2") for name in COUNTERS]
    for found, name, kind in expected:
        dtype = found[name][0] if found and name in found else None
        if dtype is None or dtype.newbyteorder("=") != np.dtype(kind):
            raise ValueError(
                f"read_ismrmrd: {name} in the header of lines must be {kind}, got {dtype}"
            )
    for name in ("data", "traj"):
        dtype = h5py.check_vlen_dtype(columns[name][0]) if name in columns else None
        dtype = None if dtype is None else np.dtype(dtype)  # strings are lists of str
        if dtype is None or dtype.newbyteorder("=") != np.dtype("f4"):
            raise ValueError(f"read_ismrmrd: {name} must be lists of float32, got {dtype}")
    if table.ndim != 1:
        raise ValueError(f"read_ismrmrd: data must be a list of lines, got shape {table.shape}")
    if table.size * table.dtype.itemsize > MOST_DEFLATED * table.id.get_storage_size():
        raise ValueError(
            f"read_ismrmrd: data must be stored for {table.size} lines, got "
            f"{table.id.get_storage_size()} bytes"
        )
    # Whole rows: where h5py reads one field, HDF5 never frees the lists of the others.
    parts = (table[start : start + _AT_ONCE]["head"] for start in range(0, len(table), _AT_ONCE))
    heads: Array = np.concatenate([np.empty(0, columns["head"][0]), *map(np.copy, parts)])
    fields = ("number_of_samples", "active_channels", "trajectory_dimensions")
    n_samples, n_coils, n_dims = (heads[name].astype(np.int64) for name in fields)
    claimed = 4 * int((n_samples * (2 * n_coils + n_dims)).sum())
    if claimed > size:  # lists are not compressed
        raise ValueError(
            f"read_ismrmrd: lines must fit the file of {size} bytes, got {claimed} in their headers"
        )
    return heads


def _kinds(heads: Array, lines: str, encoding: int) -> Array:
    """Return the kind of each line; of calibration and imaging together, ``lines`` if it can be."""
    both = _has_flag(heads, _CALIBRATION_AND_IMAGING)
    kinds = np.full(len(heads), "imaging", dtype=object)
    kinds[_has_flag(heads, _CALIBRATION) & ~both] = "calibration"
    kinds[both] = "calibration" if lines == "calibration" else "imaging"
    kinds[heads["encoding_space_ref"] != encoding] = "other encodings"
    for flag, kind in _OTHER_KINDS.items():
        kinds[_has_flag(heads, flag)] = kind
    kinds[_has_flag(heads, _NOISE)] = "noise"
    return kinds


def _has_flag(heads: Array, flag: int) -> Array:
    found: Array = (heads["flags"] >> np.uint64(flag - 1)) & np.uint64(1) == 1
    return found


def _counted(kinds: Array) -> dict[str, int]:
    return {str(kind): int((kinds == kind).sum()) for kind in dict.fromkeys(kinds)}


def _lines(table: Any, heads: Array, chosen: Array) -> tuple[Tensor, Tensor | None]:
    """Return the samples (C, L, X) and the trajectory (L, X, D) of lines of one length."""
    n_samples = _only(heads, chosen, "number_of_samples")
    n_coils = _only(heads, chosen, "active_channels")
    n_dims = _only(heads, chosen, "trajectory_dimensions")
    if not n_samples or not n_coils:
        raise ValueError(
            f"read_ismrmrd: lines must have samples and coils, got {n_samples} of {n_coils} coils"
        )
    kspace = np.empty((n_coils, int(chosen.sum()), n_samples), np.complex64)
    trajectory = np.empty((kspace.shape[1], n_samples, n_dims), np.float32)
    for number, data, traj in _rows(table, heads, chosen):
        kspace[:, number], trajectory[number] = data, traj
    return torch.from_numpy(kspace), torch.from_numpy(trajectory) if n_dims else None


def _only(heads: Array, chosen: Array, name: str) -> Any:
    """Return the number that is the same for all chosen lines."""
    numbers, first, counts = np.unique(heads[name][chosen], return_index=True, return_counts=True)
    if len(numbers) > 1:
        at = np.flatnonzero(chosen)[first]
        found = [
            f"{number.item()} ({n} times, first in line {line})"
            for number, n, line in list(zip(numbers, counts, at, strict=True))[:5]
        ]
        usual = numbers[counts.argmax()].item()
        raise ValueError(
            f"read_ismrmrd: {name} must be the same for all lines, got {', '.join(found)}; select "
            f"lines, for example by where={{{name!r}: {usual}}}"
        )
    return numbers[0].item()


def _rows(table: Any, heads: Array, chosen: Array) -> Iterator[tuple[int, Array, Array]]:
    """Yield the number of each chosen line, its samples (C, X) and trajectory (X, D)."""
    number = 0
    for start in range(0, len(heads), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        if not chosen[part].any():
            continue
        rows = table[part]
        for head, row in zip(heads[part][chosen[part]], rows[chosen[part]], strict=True):
            n_samples = int(head["number_of_samples"])
            n_coils, n_dims = int(head["active_channels"]), int(head["trajectory_dimensions"])
            for name, n_numbers in (("data", 2 * n_coils), ("traj", n_dims)):
                if len(row[name]) != n_samples * n_numbers:
                    raise ValueError(
                        f"read_ismrmrd: {name} of a line must have {n_samples * n_numbers} "
                        f"numbers, as its header says, got {len(row[name])}"
                    )
            data = np.ascontiguousarray(row["data"], np.float32).view(np.complex64)
            traj = np.ascontiguousarray(row["traj"], np.float32)
            yield number, data.reshape(n_coils, n_samples), traj.reshape(n_samples, n_dims)
            number += 1


def _details(heads: Array) -> dict[str, Tensor]:
    """Return the further numbers of the headers that the file has."""
    found = {name: heads[name] for name in _DETAILS if name in (heads.dtype.names or ())}
    if "user" in (heads["idx"].dtype.names or ()):
        found["user"] = heads["idx"]["user"]
    for name, values in found.items():
        if values.dtype.kind not in "uif":
            raise ValueError(
                f"read_ismrmrd: {name} in the header of lines must be numbers, got {values.dtype}"
            )
    return {
        name: _integers(values) if values.dtype.kind in "ui" else torch.from_numpy(values + 0.0)
        for name, values in found.items()
    }


def _integers(values: Array) -> Tensor:
    return torch.from_numpy(values.astype(np.int64))
