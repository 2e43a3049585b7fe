"""Files of raw data and images."""

import io
from typing import Any

import numpy as np
from table import row

SECTION = "Files"


@row(
    SECTION,
    "ismrmrd",
    guess="`matrix_size` has the order of the array",
    here="`read_ismrmrd` returns the order of the array",
)
def ismrmrd() -> str:
    import ismrmrd as library

    image = library.Image.from_array(np.zeros((2, 3, 4), np.float32))
    sizes = list(image.matrix_size)
    return f"of an array (2, 3, 4), `data` has {image.data.shape}, `matrix_size` {sizes}"


@row(
    SECTION,
    "nibabel",
    guess="slope and intercept scale both parts of complex voxels",
    here="`read_nifti`, as nifti1.h says: both parts",
)
def nibabel() -> str:
    import nibabel as library

    header = library.Nifti1Header()
    header.set_data_dtype(np.complex64)
    header.set_data_shape((1, 1, 1))
    header["scl_slope"], header["scl_inter"] = 2, 3
    header["vox_offset"] = 352
    header["magic"] = b"n+1"
    content = header.binaryblock + b"\0" * 4 + np.array([1 + 1j], np.complex64).tobytes()
    image = library.Nifti1Image.from_stream(io.BytesIO(content))
    value = complex(np.asarray(image.dataobj).reshape(-1)[0])
    assert value == 5 + 2j, value
    return "the intercept is added to the real part: 1+1j with slope 2 and intercept 3 is 5+2j"


def nifti(affine: Any, **fields: Any) -> Any:
    """Return an image that was written and read again."""
    import nibabel as library

    image = library.Nifti1Image(np.zeros((4, 5, 6), np.float32), affine)
    for name, value in fields.items():
        image.header[name] = value
    return library.Nifti1Image.from_bytes(image.to_bytes())


@row(
    SECTION,
    "nibabel",
    guess="without a qform and an sform the affine map has the voxel sizes and no offset",
    here="`read_nifti` warns, and `return_codes=True` returns 0 for both",
)
def without_a_form() -> str:
    image = nifti(None, pixdim=[1, 2, 3, 4, 1, 1, 1, 1], qform_code=0, sform_code=0)
    assert np.allclose(image.affine[:3, 3], [3, -6, -10]) and image.affine[0, 0] == -2
    return "it is a guess: x is flipped and 0 is the middle, -2 i + 3 for 4 voxels of 2 mm"


@row(
    SECTION,
    "nibabel",
    guess="the affine map is in mm",
    here="`read_nifti`: mm, converted",
)
def units() -> str:
    affine = nifti(np.diag([2.0, 2, 2, 1]), xyzt_units=3).affine
    assert affine[0, 0] == 2
    return "it is in the unit of the file: 2 for voxels of 2 micrometres"


@row(
    SECTION,
    "ismrmrd",
    guess="`Acquisition.from_array(data)` has its centre in the middle",
    here="`read_ismrmrd` returns it as `scan.centre_sample`, and `write_ismrmrd` writes that",
)
def center_sample() -> str:
    import ismrmrd as library

    lines = library.Acquisition.from_array(np.zeros((2, 8), np.complex64))
    assert lines.center_sample == 0
    return "`center_sample` is 0: sample 0 of 8 is the centre of k-space"


@row(
    SECTION,
    "ismrmrd",
    guess="`ACQ_LAST_IN_MEASUREMENT` is a mask for `flags`",
    here="`read_ismrmrd(..., lines=)` sorts lines by their flags",
)
def flags() -> str:
    import ismrmrd as library

    acquisition = library.Acquisition()
    acquisition.set_flag(library.ACQ_LAST_IN_MEASUREMENT)
    assert acquisition.flags == 1 << (library.ACQ_LAST_IN_MEASUREMENT - 1)
    return f"it is the number of a bit, from 1: {library.ACQ_LAST_IN_MEASUREMENT} is `1 << 24`"
