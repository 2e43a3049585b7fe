"""Files of the fastMRI data sets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from linops_core import Slice
from linops_core.siblings import check_integer

from .._checks import sizes_of_grid
from .._extras import optional_module
from ._hdf5 import check_stored, header_in, member, numbers_for_torch
from ._ismrmrd_header import Encoding, encodings_of
from ._reader_errors import reader_errors

Array = np.ndarray[Any, Any]

_OWNER = "read_fastmri"
_RECONSTRUCTIONS = ("reconstruction_rss", "reconstruction_esc")


@dataclass(frozen=True, eq=False)
class FastmriScan:
    """Slices of a fastMRI file. S slices, C coils, Kx readout with oversampling, Ky lines."""

    kspace: Tensor
    """complex64, (S, C, Kx, Ky), or (S, Kx, Ky) of a file for one coil. The centre of k-space is at
    index N // 2: ``FFT(2, centered=True).H`` gives images (S, C, Nx, Ny)."""
    dims: tuple[str, ...]
    """The names of these axes."""
    mask: Tensor
    """Which columns were measured, bool, (Ky,): the ``mask`` of a test file, and everywhere without
    the columns that are zero in all slices that were read. Such columns fill up k-space: measured
    ones have noise. If somebody has set measured columns of some slices to 0, the mask depends on
    which slices were read."""
    reconstruction: Tensor | None
    """The root of the sum of squares, or the emulated single coil, float32, (S, X, Y); None in test
    files."""
    encoding: Encoding
    """Sizes and fields of view; its y belongs to Ky."""
    attributes: Mapping[str, object]
    """Of the file: ``acquisition``, ``patient_id``, ``max``, ``norm``, ``acceleration``, ..."""
    header: str = field(repr=False)
    """The whole XML header. Refuse a DOCTYPE when you parse it."""

    def crop(self, size: Sequence[int] | None = None) -> Slice:
        """Return the operator from images of the size of k-space to those of the data set.

        It removes the oversampling. As in fastMRI's own programs, the first pixel that is kept is
        (N - n) // 2.

        Parameters
        ----------
        size : (int, int), optional
            Pixels (x, y) to keep; by default those of ``reconstruction``, or of the header in a
            test file.

        Returns
        -------
        Slice
            (..., Nx, Ny) to (..., Nx, Ny).

        Raises
        ------
        ValueError
            If the size is not two positive integers, or larger than k-space. The latter happens
            with few files of brains, whose k-space has fewer lines than their images.
        """
        grid = tuple(self.kspace.shape[-2:])
        if size is None:
            size = self.encoding.recon_size[:2]
            if self.reconstruction is not None:
                size = self.reconstruction.shape[-2:]
        sizes = sizes_of_grid("FastmriScan", size, 2, name="size")
        if any(n > whole for n, whole in zip(sizes, grid, strict=True)):
            raise ValueError(
                f"FastmriScan: size must be at most that of k-space, {grid}, got {sizes}; pass a "
                "smaller size"
            )
        starts = [(whole - n) // 2 for n, whole in zip(sizes, grid, strict=True)]
        slices = [slice(at, at + n) for at, n in zip(starts, sizes, strict=True)]
        return Slice(dict(zip(("Nx", "Ny"), slices, strict=True)), grid)


def read_fastmri(path: str | os.PathLike[str], slices: Sequence[int] | None = None) -> FastmriScan:
    """Return the raw data in a file of the fastMRI data sets (knees, brains).

    Parameters
    ----------
    path : path
        An HDF5 file, of training, validation or test, with one or several coils.
    slices : sequence of int, optional
        The slices to read, such as ``range(10, 12)``; all by default. Others are not read.

    Returns
    -------
    FastmriScan

    Raises
    ------
    ImportError
        If h5py is not installed (the extra ``ismrmrd``).
    FileNotFoundError
        If the file is missing.
    TypeError, ValueError
        If a slice is not in the file; or if the file is damaged, refers to other files, or does not
        have ``kspace`` and ``ismrmrd_header`` of the data sets.

    References
    ----------
    F. Knoll et al., "fastMRI: a publicly available raw k-space and DICOM dataset of knee images for
    accelerated MR image reconstruction using machine learning", Radiology: Artificial Intelligence
    2 (2020).
    """
    if slices is not None and not isinstance(slices, Iterable):
        raise TypeError(f"{_OWNER}: slices must be a sequence of integers, got {slices!r}")
    path = Path(path)
    h5py = optional_module("h5py", _OWNER, "ismrmrd")
    path.stat()
    with reader_errors(_OWNER, path.name, "a fastMRI file"), h5py.File(path, "r") as file:
        header = header_in(_OWNER, member(_OWNER, h5py, file, "ismrmrd_header", h5py.Dataset))
        table = member(_OWNER, h5py, file, "kspace", h5py.Dataset)
        if table.dtype.kind != "c" or table.ndim not in (3, 4) or not table.size:
            raise ValueError(
                f"{_OWNER}: kspace must be complex with the axes (S, [C,] Kx, Ky), got "
                f"{table.dtype} of the shape {table.shape}"
            )
        n_slices = table.shape[0]
        chosen = range(n_slices) if slices is None else [*slices]
        for number in chosen:
            if check_integer(_OWNER, "slices", number, 0) >= n_slices:
                raise ValueError(f"{_OWNER}: slices must be from 0 to {n_slices - 1}, got {number}")
        if not chosen:
            raise ValueError(f"{_OWNER}: slices must have a number, got none")
        kspace = _slices(table, chosen).to(torch.complex64)
        n_columns = kspace.shape[-1]
        measured = kspace.flatten(0, -2).ne(0).any(0)
        if "mask" in file:
            mask = member(_OWNER, h5py, file, "mask", h5py.Dataset)
            check_stored(_OWNER, mask)
            if mask.size != n_columns:
                raise ValueError(
                    f"{_OWNER}: mask must have a value for each of {n_columns} columns, got the "
                    f"shape {mask.shape}"
                )
            measured &= torch.from_numpy(np.asarray(mask[()]).reshape(-1) != 0)
        name = next((name for name in _RECONSTRUCTIONS if name in file), None)
        images = None
        if name is not None:
            images = _slices(_of_slices(h5py, file, name, n_slices), chosen)
        attributes = {key: _plain_attribute(value) for key, value in file.attrs.items()}
    return FastmriScan(
        kspace=kspace,
        dims=("S", "C", "Kx", "Ky") if kspace.ndim == 4 else ("S", "Kx", "Ky"),
        mask=measured,
        reconstruction=images,
        encoding=encodings_of(header, _OWNER)[0],
        attributes=attributes,
        header=header,
    )


def _of_slices(h5py: Any, file: Any, name: str, n_slices: int) -> Any:
    table = member(_OWNER, h5py, file, name, h5py.Dataset)
    if table.ndim != 3 or table.shape[0] != n_slices or table.dtype.kind != "f":
        raise ValueError(
            f"{_OWNER}: {name} must be real with the axes ({n_slices}, X, Y), got {table.dtype} of "
            f"the shape {table.shape}"
        )
    return table


def _slices(table: Any, chosen: Sequence[int]) -> Tensor:
    """Return some slices of a table; only these are read."""
    check_stored(_OWNER, table)
    kind = numbers_for_torch(_OWNER, table.name, np.empty(0, table.dtype)).dtype
    array = np.empty((len(chosen), *table.shape[1:]), kind)
    for at, number in enumerate(chosen):
        array[at] = table[number]
    return torch.from_numpy(array)


def _plain_attribute(value: Any) -> object:
    """Return an attribute as a plain object of Python."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
