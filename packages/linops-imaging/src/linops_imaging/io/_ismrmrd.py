"""Raw data of MRI scanners: ISMRMRD's HDF5 files and MRD streams."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import optional_module
from . import _mrd_stream
from ._hdf5 import check_stored, group_at, group_names, header_in, member
from ._ismrmrd_fields import COUNTERS, HEAD, IDX
from ._ismrmrd_header import encodings_of
from ._ismrmrd_lines import (
    KINDS,
    SELECTABLE,
    FileLines,
    IsmrmrdGroup,
    Rows,
    Where,
    groups_of,
    numbers_of,
    scan_from_lines,
)
from ._ismrmrd_scan import IsmrmrdScan
from ._reader_errors import reader_errors

Array = np.ndarray[Any, Any]

# The fields of AcquisitionHeader that are used.
_FIELDS = (
    *("flags", "number_of_samples", "active_channels", "discard_pre", "discard_post"),
    *("center_sample", "encoding_space_ref", "trajectory_dimensions", "sample_time_us"),
)
_AT_ONCE = 64
"""Lines that are read together."""


def read_ismrmrd(
    path: str | os.PathLike[str],
    dataset: str = "dataset",
    lines: str = "imaging",
    encoding: int = 0,
    *,
    where: Where | None = None,
) -> IsmrmrdScan:
    """Return the raw data in an ISMRMRD file: lines of k-space, where they belong, and noise.

    ``scan.on_grid()`` puts Cartesian lines onto a grid. Only the samples of the selected lines stay
    in memory.

    Parameters
    ----------
    path : path
        An HDF5 file, or an MRD stream (version 2) in a file, in binary form.
    dataset : str
        The HDF5 group of the dataset.
    lines : str
        Which lines to read: "imaging", "calibration", "noise", "navigation", "phase correction",
        "feedback", "dummy", "coil correction" or "phase stabilization". Lines with the flag of both
        calibration and imaging are in both of these. ``left_out`` counts the lines that are neither
        selected nor noise.
    encoding : int
        Index of the encoding in the header, if there are several.
    where : mapping of str to number or sequence of numbers, optional
        Select among these lines those with these numbers in their header: a counter,
        ``number_of_samples``, ``active_channels``, ``trajectory_dimensions``, ``center_sample`` or
        ``sample_time_us``. For example, ``{"contrast": 0, "slice": range(4, 8)}``.

    Returns
    -------
    IsmrmrdScan

    Raises
    ------
    ImportError
        If h5py (the extra ``ismrmrd``) or, for a stream, mrd-python (the extra ``mrd``) is not
        installed.
    FileNotFoundError
        If the file is missing.
    TypeError, ValueError
        If an argument is not one of the values above; if the file is not an ISMRMRD file, is
        damaged, refers to other files or has no such lines; or if the lines differ in their numbers
        of samples, coils or dimensions, or in their dwell times. ``where`` selects some;
        :func:`ismrmrd_groups` lists what can be read together.

    Notes
    -----
    Of a stream, the header is XML with the encodings alone. Time stamps that the stream has in
    nanoseconds are ``details["acquisition_time_stamp_ns"]`` and ``["physiology_time_stamp_ns"]``. A
    stream can be read by the version of mrd-python that wrote it.

    References
    ----------
    S. J. Inati et al., "ISMRM Raw data format: a proposed standard for MRI raw datasets", Magnetic
    Resonance in Medicine 77 (2017).
    """
    if lines not in KINDS:
        raise ValueError(f"read_ismrmrd: lines must be one of {KINDS}, got {lines!r}")
    numbers = numbers_of("read_ismrmrd", where, SELECTABLE)
    with _opened(path, dataset) as source:
        return scan_from_lines(source, lines, encoding, numbers)


def ismrmrd_groups(path: str | os.PathLike[str], dataset: str = "dataset") -> list[IsmrmrdGroup]:
    """Return which lines of an ISMRMRD file can be read together.

    The lines of a group have one kind, encoding, number of samples, coils and dimensions, and dwell
    time. ``read_ismrmrd(path, **group.selection)`` reads a group. Groups are in the order of their
    first lines. Lines of calibration and imaging are in a group of each. No samples are kept.

    Parameters
    ----------
    path, dataset
        As for :func:`read_ismrmrd`.

    Returns
    -------
    list of IsmrmrdGroup

    Raises
    ------
    ImportError, FileNotFoundError, TypeError, ValueError
        As for :func:`read_ismrmrd`.
    """
    with _opened(path, dataset) as source:
        return groups_of(source.heads)


@contextmanager
def _opened(path: str | os.PathLike[str], dataset: str) -> Iterator[FileLines]:
    """Give the lines of a file while it is open."""
    path = Path(path)
    group_names("read_ismrmrd", dataset)
    if _mrd_stream.is_stream(path):
        yield _mrd_stream.lines_in(path)
        return
    h5py = optional_module("h5py", "read_ismrmrd", "ismrmrd")
    size = path.stat().st_size
    with reader_errors("read_ismrmrd", path.name, "an ISMRMRD file"), h5py.File(path, "r") as file:
        group = group_at("read_ismrmrd", h5py, file, dataset)
        header = header_in("read_ismrmrd", member("read_ismrmrd", h5py, group, "xml", h5py.Dataset))
        encodings = encodings_of(header)
        table = member("read_ismrmrd", h5py, group, "data", h5py.Dataset)
        heads = _heads(h5py, table, size)
        yield FileLines(header, encodings, heads, lambda chosen: _rows(table, heads, chosen))


def _heads(h5py: Any, table: Any, size: int) -> Array:
    """Return the headers of all lines; refuse wrong fields, and sizes that exceed the file."""
    columns = table.dtype.fields or {}
    head = columns["head"][0].fields if "head" in columns else None
    idx = head["idx"][0].fields if head and "idx" in head else None
    expected = [(head, name, HEAD[name]) for name in _FIELDS]
    expected += [(idx, name, IDX[name]) for name in COUNTERS]
    for actual, name, kind in expected:
        dtype = actual[name][0] if actual and name in actual else None
        if dtype is None or dtype.newbyteorder("<") != kind:
            raise ValueError(
                f"read_ismrmrd: {name} in the header of lines must be {kind.str[1:]}, got {dtype}"
            )
    for name in ("data", "traj"):
        dtype = h5py.check_vlen_dtype(columns[name][0]) if name in columns else None
        dtype = None if dtype is None else np.dtype(dtype)  # strings are lists of str
        if dtype is None or dtype.newbyteorder("=") != np.dtype("f4"):
            raise ValueError(f"read_ismrmrd: {name} must be lists of float32, got {dtype}")
    if table.ndim != 1:
        raise ValueError(f"read_ismrmrd: data must be a list of lines, got shape {table.shape}")
    check_stored("read_ismrmrd", table)
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


def _rows(table: Any, heads: Array, chosen: Array) -> Rows:
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
