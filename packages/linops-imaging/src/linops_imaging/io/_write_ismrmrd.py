"""ISMRMRD files that are written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linops_core.siblings import check_real, written_aside

from .._extras import optional_module
from ._hdf5 import group_at, group_names
from ._ismrmrd_fields import COUNTERS, HEAD, IDX
from ._ismrmrd_header import encodings_of
from ._ismrmrd_lines import FLAG_OF
from ._ismrmrd_scan import IsmrmrdScan

Array = np.ndarray[Any, Any]

_VERSION = 1
_NOISE, _REVERSED = 1 << 18, 1 << 21
_MOST = 2**16 - 1
"""Largest number of samples, and largest counter."""
_AT_ONCE = 64


def write_ismrmrd(
    path: str | os.PathLike[str],
    scan: IsmrmrdScan,
    dataset: str = "dataset",
    *,
    others: Mapping[str, IsmrmrdScan] | None = None,
) -> None:
    """Write a scan to an ISMRMRD file, from which :func:`read_ismrmrd` returns it.

    Parameters
    ----------
    path : path
        An HDF5 file. An existing file is replaced when the new one is complete.
    scan : IsmrmrdScan
        From :func:`read_ismrmrd`, changed or not (``dataclasses.replace``), or made by
        ``IsmrmrdScan.from_grid``. Its lines are written as lines of imaging with the numbers of
        ``scan.details``, its noise as lines of noise before them. Lines that ``left_out`` counts
        are not in the scan; give them as ``others``.
    dataset : str
        The HDF5 group; ``""`` is the file itself.
    others : mapping of str to IsmrmrdScan, optional
        Lines of other kinds, which are written before those of imaging: "calibration",
        "navigation", "phase correction", "feedback", "dummy", "coil correction" or "phase
        stabilization". For example, ``{"phase correction": three}`` for
        ``three = read_ismrmrd(path, lines="phase correction")``. Only the lines are written: header
        and noise are those of ``scan``.

    Raises
    ------
    ImportError
        If h5py is not installed (the extra ``ismrmrd``).
    TypeError
        If ``scan`` is not an IsmrmrdScan, ``dataset`` is not a name, or ``others`` is not a mapping
        of them.
    ValueError
        If a key of ``others`` is not one of the kinds above.
        If a number does not fit its field of the header, such as a line of more than 65,535
        samples; if the tensors of the scan do not have the lines, coils and samples of
        ``scan.kspace``; or if ``scan.encoding`` is not one of ``scan.header``. No file is written
        then.

    References
    ----------
    S. J. Inati et al., "ISMRM Raw data format: a proposed standard for MRI raw datasets", Magnetic
    Resonance in Medicine 77 (2017).
    """
    if not isinstance(scan, IsmrmrdScan):
        raise TypeError(f"write_ismrmrd: scan must be an IsmrmrdScan, got {type(scan)}")
    h5py = optional_module("h5py", "write_ismrmrd", "ismrmrd")
    group_names("write_ismrmrd", dataset)
    tables = [*_others(scan, others), (_heads(scan), scan)]
    floats = h5py.vlen_dtype(np.dtype("<f4"))
    row = np.dtype([("head", HEAD), ("traj", floats), ("data", floats)])
    noise = [] if scan.noise is None else list(scan.noise.split(_MOST, 1))
    with written_aside(Path(path)) as (partial,), h5py.File(partial, "w") as file:
        group = group_at("write_ismrmrd", h5py, file, dataset, make=True)
        group.create_dataset("xml", data=[scan.header.encode()], dtype=h5py.string_dtype())
        n_rows = len(noise) + sum(len(heads) for heads, _ in tables)
        table = group.create_dataset("data", (n_rows,), row, maxshape=(None,), chunks=(1,))
        for number, samples in enumerate(noise):
            head = np.zeros((), HEAD)
            head["flags"], head["sample_time_us"] = _NOISE, scan.noise_dwell_time
            table[number : number + 1] = _rows(row, head[None], samples[:, None], None)
        first = len(noise)
        for heads, lines in tables:
            for start in range(0, len(heads), _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                traj = None if lines.trajectory is None else lines.trajectory[part]
                rows = _rows(row, heads[part], lines.kspace[:, part], traj)
                table[first + start : first + start + len(rows)] = rows
            first += len(heads)


def _others(
    scan: IsmrmrdScan, others: Mapping[str, IsmrmrdScan] | None
) -> Iterator[tuple[Array, IsmrmrdScan]]:
    """Yield the headers of lines of other kinds, and the lines."""
    if others is not None and not isinstance(others, Mapping):
        raise TypeError(
            "write_ismrmrd: others must be a mapping of kinds to scans, as in "
            f'{{"phase correction": three}}, got {type(others)}'
        )
    for kind, lines in (others or {}).items():
        if kind not in FLAG_OF:
            raise ValueError(
                f"write_ismrmrd: others must have kinds of {(*FLAG_OF,)}, got {kind!r}"
            )
        if not isinstance(lines, IsmrmrdScan):
            raise TypeError(
                f"write_ismrmrd: others[{kind!r}] must be an IsmrmrdScan, got {type(lines)}"
            )
        rest = replace(lines, header=scan.header, noise=None)
        heads = _heads(rest)
        heads["flags"] |= np.uint64(1 << (FLAG_OF[kind] - 1))
        yield heads, rest


def _check(scan: IsmrmrdScan) -> int:
    """Return the index of the encoding; raise an error unless the same scan can be read."""
    if scan.kspace.ndim != 3 or not scan.kspace.is_complex():
        raise ValueError(
            f"write_ismrmrd: kspace must be complex, (C, L, X), got {scan.kspace.dtype} of the "
            f"shape {tuple(scan.kspace.shape)}"
        )
    n_coils, n_lines, n_samples = scan.kspace.shape
    of_lines = {"discarded": (n_lines, 2), "is_reversed": (n_lines,)}
    for name, shape in of_lines.items():
        if (actual := tuple(getattr(scan, name).shape)) != shape:
            raise ValueError(f"write_ismrmrd: {name} must have the shape {shape}, got {actual}")
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
    check_real("write_ismrmrd", "dwell_time", scan.dwell_time, above=0)
    if scan.noise is not None:
        if scan.noise.ndim != 2 or len(scan.noise) != n_coils:
            raise ValueError(
                f"write_ismrmrd: noise must be ({n_coils}, T), of the coils of kspace, got "
                f"{tuple(scan.noise.shape)}"
            )
        if scan.noise_dwell_time is None:
            raise ValueError("write_ismrmrd: noise must have a noise_dwell_time, got None")
        check_real("write_ismrmrd", "noise_dwell_time", scan.noise_dwell_time, above=0)
    if (scan.discarded.sum(-1) > n_samples).any():
        raise ValueError(f"write_ismrmrd: discarded must be at most {n_samples} samples of a line")
    encodings = encodings_of(scan.header, "write_ismrmrd")
    if scan.encoding not in encodings:
        raise ValueError(
            "write_ismrmrd: scan.encoding must be one of those in scan.header, got "
            f"{scan.encoding} for {encodings}; change the header, too"
        )
    return encodings.index(scan.encoding)


def _heads(scan: IsmrmrdScan) -> Array:
    """Return the headers of the lines of a scan, without the sizes of their data."""
    encoding = _check(scan)
    heads = np.zeros(scan.kspace.shape[1], HEAD)
    for name, values in _fields(scan):
        write_field(
            "write_ismrmrd", heads["idx"] if name in (IDX.names or ()) else heads, name, values
        )
    heads["flags"] = np.where(scan.is_reversed.cpu().numpy(), _REVERSED, 0)
    heads["sample_time_us"] = scan.dwell_time
    heads["encoding_space_ref"] = encoding
    return heads


def write_field(owner: str, heads: Array, name: str, values: Tensor) -> None:
    """Write numbers into a field of headers; raise an error unless it holds all of them."""
    if name not in (heads.dtype.names or ()):
        raise ValueError(f"{owner}: details must be fields of the standard, got {name!r}")
    raw = values.detach().cpu().numpy()
    kind = heads[name].dtype
    if raw.shape != heads[name].shape or (kind.kind in "ui" and raw.dtype.kind not in "ui"):
        numbers = "integers" if kind.kind in "ui" else "numbers"
        raise ValueError(
            f"{owner}: {name} must be {numbers} of the shape {heads[name].shape}, got "
            f"{values.dtype} of the shape {raw.shape}"
        )
    if kind.kind in "ui" and raw.size:
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
        if raw.min() < least or raw.max() > most:
            raise ValueError(
                f"{owner}: {name} must be from {least} to {most}, got {raw.min()} to {raw.max()}"
            )
    heads[name] = raw


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
        at = np.zeros(0) if trajectory is None else trajectory[number].detach().cpu().numpy()
        rows["traj"][number] = at.astype("f4").flatten()
    return rows
