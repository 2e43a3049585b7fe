"""NIfTI images."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._extras import needed
from ._damaged import MOST_DEFLATED, damaged


def read_nifti(path: str | os.PathLike[str]) -> tuple[Tensor, Tensor]:
    """Return the image in a NIfTI file, and the affine map from indices to the scanner's space.

    Parameters
    ----------
    path : path
        A ``.nii`` or ``.nii.gz`` file, NIfTI-1 or NIfTI-2. Extensions of the header are ignored.

    Returns
    -------
    image : Tensor
        The axes are those of the file: three of space, then time and others. The dtype is that of
        the file, or float64 (complex128) if the file scales its values.
    affine : Tensor
        float64, (4, 4), in mm: ``affine @ [i, j, k, 1]`` is the position of voxel i, j, k. The axes
        of space point to the right, to the front and to the top of the patient.

    Raises
    ------
    ImportError
        If nibabel is not installed (the extra ``nifti``).
    FileNotFoundError
        If the file is missing.
    ValueError
        If the file is not NIfTI, is damaged, or holds values for which torch has no dtype.

    Examples
    --------
    >>> import tempfile, nibabel, numpy
    >>> volume = nibabel.Nifti1Image(numpy.ones((4, 3, 2), "int16"), numpy.diag([2.0, 2, 5, 1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nibabel.save(volume, f"{folder}/volume.nii.gz")
    ...     image, affine = read_nifti(f"{folder}/volume.nii.gz")
    >>> image.shape, image.dtype, affine.diagonal().tolist()
    (torch.Size([4, 3, 2]), torch.int16, [2.0, 2.0, 5.0, 1.0])
    """
    path = Path(path)
    nibabel = needed("nibabel", "read_nifti", "nifti")
    size = path.stat().st_size
    if not path.name.lower().endswith((".nii", ".nii.gz")):
        raise ValueError(f"read_nifti: {path.name} must be named .nii or .nii.gz")
    with damaged("read_nifti", path.name, "a NIfTI file"):
        kinds = (nibabel.Nifti1Image, nibabel.Nifti2Image)
        kind = next((kind for kind in kinds if kind.path_maybe_image(path)[0]), kinds[0])
        image = kind.from_filename(path, mmap=False)
        _check_length(path, size, image.dataobj)
        values = _native(path, np.asarray(image.dataobj))
        affine = torch.from_numpy(np.array(image.affine, np.float64))
    if not affine.isfinite().all():
        raise ValueError(
            f"read_nifti: the affine map of {path.name} must be finite, got {affine.tolist()}"
        )
    return torch.from_numpy(values), affine


def _check_length(path: Path, size: int, data: Any) -> None:
    """Refuse a header that claims more than the file can hold, before memory is taken for it."""
    claimed = data.offset + data.dtype.itemsize * prod(map(int, data.shape))
    if claimed > size * (MOST_DEFLATED if path.name.lower().endswith(".gz") else 1):
        raise ValueError(
            f"read_nifti: {path.name} must have {claimed} bytes for shape {tuple(data.shape)} of "
            f"{data.dtype}, got a file of {size}"
        )


def _native(path: Path, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the values as an array that torch can take."""
    most = {"c": 16, "f": 8, "i": 8, "u": 8}.get(values.dtype.kind, 0)
    if values.dtype.itemsize > most:
        raise ValueError(
            f"read_nifti: {path.name} must hold integers, or real or complex numbers of at most "
            f"double precision, got {values.dtype}"
        )
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))
