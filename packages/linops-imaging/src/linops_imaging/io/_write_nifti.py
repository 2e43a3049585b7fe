"""NIfTI images that are written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from linops_core.siblings import check_real, is_dense, not_a_tensor, written_aside

from .._extras import optional_module
from ._nifti import forms_differ

_SUFFIXES = (".nii", ".nii.gz")
_STORED = {
    torch.bool: torch.uint8,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}
"""What holds all values of a dtype that NIfTI lacks."""
_MOST_NIFTI1 = 2**15 - 1  # lengths of axes are int16 in the header
_SCANNER = 1  # NIFTI_XFORM_SCANNER_ANAT: positions are those in the scanner


def write_nifti(
    path: str | os.PathLike[str],
    image: Tensor,
    affine: Tensor,
    *,
    time_step: float | None = None,
) -> None:
    """Write an image and its place in space to a NIfTI file.

    The values are stored as they are, without a scale. ``read_nifti`` returns the same image and
    affine map.

    Parameters
    ----------
    path : path
        Ends with ``.nii`` or ``.nii.gz``. An existing file is replaced when the new one
        is complete.
    image : Tensor
        One to seven axes: up to three of space, then time and others. Bool is stored as uint8, half
        precision as single precision. It is NIfTI-1, or NIfTI-2 if a size exceeds 32767.
    affine : Tensor
        (4, 4), in mm: ``affine @ [i, j, k, 1]`` is the position of voxel i, j, k in the scanner, as
        in :func:`read_nifti`. It is kept as the sform, in double precision only by NIfTI-2. Without
        shear it is the qform, too. ``IsmrmrdScan.affine()`` is that of a scan.
    time_step : float, optional
        Seconds from one image to the next, along axis 3 if there is one.

    Raises
    ------
    ImportError
        If nibabel is not installed (the extra ``nifti``).
    TypeError
        If ``image`` is not a dense tensor, or its dtype is not one of NIfTI.
    ValueError
        If the name has another suffix, the image has no elements or no values, or more than seven
        axes, ``affine`` is not an invertible map, or ``time_step`` is not positive.

    Examples
    --------
    >>> import tempfile
    >>> from linops_imaging.io import read_nifti
    >>> place = torch.diag(torch.tensor([2.0, 2.0, 5.0, 1.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_nifti(f"{folder}/a.nii.gz", torch.ones(4, 3, 2), place)
    ...     image, affine = read_nifti(f"{folder}/a.nii.gz")
    >>> image.shape, image.dtype, affine.diagonal().tolist()
    (torch.Size([4, 3, 2]), torch.float32, [2.0, 2.0, 5.0, 1.0])
    """
    path = Path(path)
    nibabel = optional_module("nibabel", "write_nifti", "nifti")
    if not path.name.lower().endswith(_SUFFIXES):
        raise ValueError(f"write_nifti: {path.name} must end with .nii or .nii.gz")
    if not is_dense(image):
        raise not_a_tensor("write_nifti", "the image", image)
    if not 1 <= image.ndim <= 7 or not image.numel() or image.is_meta:
        raise ValueError(
            "write_nifti: the image must have one to seven axes, elements and values, got shape "
            f"{tuple(image.shape)} on {image.device}"
        )
    if time_step is not None:
        check_real("write_nifti", "time_step", time_step, above=0)
    matrix = _checked(affine)
    version = 1 if max(image.shape) <= _MOST_NIFTI1 else 2
    stored = image.detach().to("cpu", _STORED.get(image.dtype, image.dtype))
    header = getattr(nibabel, f"Nifti{version}Header")()
    try:
        values = stored.resolve_conj().resolve_neg().numpy()
        header.set_data_dtype(values.dtype)
    except (TypeError, nibabel.spatialimages.HeaderDataError):  # of NumPy, of nibabel
        raise TypeError(
            f"write_nifti: the image must have a dtype that NIfTI has, got {image.dtype}"
        ) from None
    file = getattr(nibabel, f"Nifti{version}Image")(values, matrix, header)
    file.set_sform(matrix, _SCANNER)
    file.set_qform(matrix, 0)
    file.set_qform(matrix, 0 if forms_differ(file.header) else _SCANNER)
    file.header.set_xyzt_units("mm", "sec" if time_step else None)
    if time_step:
        file.header["pixdim"][4] = time_step
    with written_aside(path) as (partial,):
        nibabel.save(file, partial)


def _checked(affine: Tensor) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    given = affine if isinstance(affine, Tensor) else torch.from_numpy(np.asarray(affine))
    matrix = given.detach().to("cpu", torch.float64).numpy()
    if (
        matrix.shape != (4, 4)
        or not np.isfinite(matrix).all()
        or matrix[3].tolist() != [0, 0, 0, 1]
        or not np.linalg.det(matrix)
    ):
        raise ValueError(
            "write_nifti: the affine map must be an invertible (4, 4) matrix in mm with the last "
            f"row [0, 0, 0, 1], got {matrix.tolist()}"
        )
    return matrix
