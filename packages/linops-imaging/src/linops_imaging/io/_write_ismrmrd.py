"""ISMRMRD files that are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._checks import check_real
from .._extras import needed
from ._ismrmrd_header import encodings_of
from ._ismrmrd_scan import COUNTERS, IsmrmrdScan

Array = np.ndarray[Any, Any]

_VERSION = 1
_NOISE, _REVERSED = 1 << 18, 1 << 21
_MOST = 2**16 - 1
"""Largest number of samples, and largest counter."""
_AT_ONCE = 64
_IDX = np.dtype([*((name, "<u2") for name in COUNTERS), ("user", "<u2", 8)])
_HEAD = np.dtype(
    [
        ("version", "<u2"),
        ("flags", "<u8"),
        ("measurement_uid", "<u4"),
        ("scan_counter", "<u4"),
        ("acquisition_time_stamp", "<u4"),
        ("physiology_time_stamp", "<u4", 3),
        ("number_of_samples", "<u2"),
        ("available_channels", "<u2"),
        ("active_channels", "<u2"),
        ("channel_mask", "<u8", 16),
        ("discard_pre", "<u2"),
        ("discard_post", "<u2"),
        ("center_sample", "<u2"),
        ("encoding_space_ref", "<u2"),
        ("trajectory_dimensions", "<u2"),
        ("sample_time_us", "<f4"),
        ("position", "<f4", 3),
        ("read_dir", "<f4", 3),
        ("phase_dir", "<f4", 3),
        ("slice_dir", "<f4", 3),
        ("patient_table_position", "<f4", 3),
        ("idx", _IDX),
        ("user_int", "<i4", 8),
        ("user_float", "<f4", 8),
    ]
)


def write_ismrmrd(
    path: str | os.PathLike[str], scan: IsmrmrdScan, dataset: str = "dataset"
) -> None:
    """Write a scan to an ISMRMRD file, from which :func:`read_ismrmrd` returns it.

    Parameters
    ----------
    path : path
        An HDF5 file. An existing file is replaced.
    scan : IsmrmrdScan
        From :func:`read_ismrmrd`, changed or not (``dataclasses.replace``), or made by
        ``IsmrmrdScan.from_grid``. Its lines are written as lines of imaging with the numbers of
        ``scan.details``, its noise as lines of noise before them. Lines that ``left_out`` counts
        are not in the scan, so that they are not written.
    dataset : str
        The HDF5 group.

    Raises
    ------
    ImportError
        If h5py is not installed (the extra ``ismrmrd``).
    TypeError
        If ``scan`` is not an IsmrmrdScan.
    ValueError
        If a number does not fit its field of the header, such as a line of more than 65,535
        samples; or if the tensors of the scan do not have the lines, coils and samples of
        ``scan.kspace``. No file is written then.

    References
    ----------
    S. J. Inati et al., "ISMRM Raw data format: a proposed standard for MRI raw datasets", Magnetic
    Resonance in Medicine 77 (2017).
    """
    if not isinstance(scan, IsmrmrdScan):
        raise TypeError(f"write_ismrmrd: scan must be an IsmrmrdScan, got {type(scan)}")
    h5py = needed("h5py", "write_ismrmrd", "ismrmrd")
    _check(scan)
    heads = _heads(scan)
    floats = h5py.vlen_dtype(np.dtype("<f4"))
    row = np.dtype([("head", _HEAD), ("traj", floats), ("data", floats)])
    noise = [] if scan.noise is None else list(scan.noise.split(_MOST, 1))
    with h5py.File(Path(path), "w") as file:
        group = file.require_group(dataset)
        group.create_dataset("xml", data=[scan.header.encode()], dtype=h5py.string_dtype())
        n_rows = len(noise) + len(heads)
        table = group.create_dataset("data", (n_rows,), row, maxshape=(None,), chunks=(1,))
        for number, samples in enumerate(noise):
            head = np.zeros((), _HEAD)
            head["flags"], head["sample_time_us"] = _NOISE, scan.noise_dwell_time
            table[number : number + 1] = _rows(row, head[None], samples[:, None], None)
        for start in range(0, len(heads), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            traj = None if scan.trajectory is None else scan.trajectory[part]
            rows = _rows(row, heads[part], scan.kspace[:, part], traj)
            table[len(noise) + start : len(noise) + start + len(rows)] = rows


def _check(scan: IsmrmrdScan) -> None:
    """Raise an error unless what is written can be read as the same scan."""
    n_coils, n_lines, n_samples = scan.kspace.shape
    if n_coils > 1024 or n_samples > _MOST:
        raise ValueError(
            f"write_ismrmrd: lines must have at most {_MOST} samples and 1024 coils, got "
            f"{n_samples} and {n_coils}"
        )
    if {*scan.counters} != {*COUNTERS}:
        raise ValueError(
            f"write_ismrmrd: counters must be {', '.join(COUNTERS)}, got {', '.join(scan.counters)}"
        )
    trajectory = scan.trajectory
    if trajectory is not None and (
        trajectory.ndim != 3 or trajectory.shape[:2] != (n_lines, n_samples)
    ):
        raise ValueError(
            f"write_ismrmrd: trajectory must be ({n_lines}, {n_samples}, D) as kspace is, got "
            f"{tuple(trajectory.shape)}"
        )
    check_real("write_ismrmrd", "dwell_time", scan.dwell_time, 0, more=True)
    if scan.noise is not None:
        if scan.noise.ndim != 2 or len(scan.noise) != n_coils:
            raise ValueError(
                f"write_ismrmrd: noise must be ({n_coils}, T), of the coils of kspace, got "
                f"{tuple(scan.noise.shape)}"
            )
        if scan.noise_dwell_time is None:
            raise ValueError("write_ismrmrd: noise must have a noise_dwell_time, got None")
        check_real("write_ismrmrd", "noise_dwell_time", scan.noise_dwell_time, 0, more=True)
    if (scan.discarded.sum(-1) > n_samples).any():
        raise ValueError(f"write_ismrmrd: discarded must be at most {n_samples} samples of a line")
    try:
        encodings_of(scan.header)
    except ValueError as error:
        raise ValueError(str(error).replace("read_ismrmrd", "write_ismrmrd")) from None


def _heads(scan: IsmrmrdScan) -> Array:
    """Return the headers of the lines of a scan, without the sizes of their data."""
    heads = np.zeros(scan.kspace.shape[1], _HEAD)
    for name, values in _fields(scan):
        field = heads["idx"] if name in (_IDX.names or ()) else heads
        if name not in (field.dtype.names or ()):
            raise ValueError(f"write_ismrmrd: details must be fields of the standard, got {name!r}")
        own = values.detach().cpu().numpy()
        kind = field[name].dtype
        if own.shape != field[name].shape or (kind.kind in "ui" and own.dtype.kind not in "ui"):
            numbers = "integers" if kind.kind in "ui" else "numbers"
            raise ValueError(
                f"write_ismrmrd: {name} must be {numbers} of the shape {field[name].shape}, got "
                f"{values.dtype} of the shape {own.shape}"
            )
        if kind.kind in "ui" and own.size:
            least, most = np.iinfo(kind).min, np.iinfo(kind).max
            if own.min() < least or own.max() > most:
                raise ValueError(
                    f"write_ismrmrd: {name} must be from {least} to {most}, got {own.min()} to "
                    f"{own.max()}"
                )
        field[name] = own
    heads["flags"] = np.where(scan.is_reversed.cpu().numpy(), _REVERSED, 0)
    heads["sample_time_us"] = scan.dwell_time
    return heads


def _fields(scan: IsmrmrdScan) -> Iterator[tuple[str, Tensor]]:
    yield from scan.details.items()
    yield from scan.counters.items()
    yield "center_sample", scan.centre_sample
    yield "discard_pre", scan.discarded[:, 0]
    yield "discard_post", scan.discarded[:, 1]


def _rows(row: np.dtype[Any], heads: Array, samples: Tensor, trajectory: Tensor | None) -> Array:
    """Return rows of the table for samples (C, L, X) and locations (L, X, D)."""
    n_coils, _, n_samples = samples.shape
    rows = np.empty(len(heads), row)
    rows["head"] = heads
    head = rows["head"]
    head["version"], head["number_of_samples"] = _VERSION, n_samples
    head["active_channels"] = head["available_channels"] = n_coils
    head["channel_mask"] = [
        (1 << min(64, max(0, n_coils - start))) - 1 for start in range(0, 1024, 64)
    ]
    data = samples.detach().to("cpu", torch.complex64).resolve_conj().movedim(1, 0)
    flat = torch.view_as_real(data.contiguous()).flatten(1).numpy()
    if trajectory is not None:
        head["trajectory_dimensions"] = trajectory.shape[-1]
    for number in range(len(rows)):
        rows["data"][number] = flat[number]
        own = np.zeros(0) if trajectory is None else trajectory[number].detach().cpu().numpy()
        rows["traj"][number] = own.astype("f4").flatten()
    return rows
