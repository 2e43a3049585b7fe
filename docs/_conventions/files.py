"""Files of raw data and images."""

import io
import tempfile
from typing import Any

import numpy as np
from table import row

SECTION = "Files"
SLICES = {"[1:]": slice(1, None), "[::-1]": slice(None, None, -1), "[-2:]": slice(-2, None)}


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


@row(
    SECTION,
    "nibabel",
    guess="`image.slicer` keeps the place of every voxel",
    here="slice the tensor of `read_nifti` and move its affine map to the first index",
)
def slicer() -> str:
    image = nifti(np.diag([2.0, 2, 2, 1]))
    place = {name: image.slicer[index].affine[0, 3] for name, index in SLICES.items()}
    assert place == {"[1:]": 2, "[::-1]": 0, "[-2:]": -4}, place
    return (
        "only from a start that is given and not negative: of 4 voxels at 0, 2, 4 and 6 mm, [::-1] "
        "begins at 0 and not 6, and [-2:] at -4 and not 4"
    )


@row(
    SECTION,
    "scikit-image",
    guess="`io.imread` returns the axes of a TIFF file",
    here="`tifffile.imread`",
)
def stacks() -> str:
    import skimage.io
    import tifffile

    seen = []
    with tempfile.TemporaryDirectory() as folder:
        for n in (3, 4, 5):
            path = f"{folder}/stack.tif"
            tifffile.imwrite(path, np.zeros((n, 8, 9), np.float32), photometric="minisblack")
            seen.append(skimage.io.imread(path).shape)
    assert seen == [(8, 9, 3), (8, 9, 4), (5, 8, 9)], seen
    return "stacks of 3 or 4 slices are taken for colours: (3, 8, 9) is read as (8, 9, 3)"


@row(
    SECTION,
    "tifffile",
    guess="axes of length 1 come back",
    here="`TiffFile(path).series[0].axes` names the axes that are left",
)
def squeezed() -> str:
    import tifffile

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/image.ome.tif"
        tifffile.imwrite(path, np.zeros((1, 1, 3, 4, 5), np.float32), ome=True)
        shape = tifffile.imread(path).shape
    assert shape == (3, 4, 5), shape
    return "(1, 1, 3, 4, 5) is read as (3, 4, 5), so that one time point or channel has no axis"


@row(
    SECTION,
    "mrcfile",
    guess="axes are sorted by the header: the last one is x",
    here="permute by `mapc`, `mapr` and `maps` of the header",
)
def axes_of_mrc() -> str:
    import mrcfile

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/volume.mrc"
        with mrcfile.new(path) as file:
            file.set_data(np.zeros((2, 3, 4), np.float32))
            header = file.header
            header.mapc, header.mapr, header.maps = 3, 2, 1
        with mrcfile.open(path) as file:
            shape = file.data.shape
    assert shape == (2, 3, 4), shape
    return "they are those of the file, also where `mapc` says that columns are z"


@row(
    SECTION,
    "netcdf4",
    guess="values that were written are values that are read",
    here="`variable.set_auto_mask(False)` before reading, or `numpy.asarray` of the result",
)
def fills() -> str:
    import netCDF4

    with tempfile.TemporaryDirectory() as folder:
        with netCDF4.Dataset(f"{folder}/a.nc", "w") as file:
            file.createDimension("n", 3)
            file.createVariable("image", "u1", ("n",))[:] = [1, 2, 255]
        with netCDF4.Dataset(f"{folder}/a.nc") as file:
            image = file["image"][:]
    assert image.mask.tolist() == [False, False, True] and image.mean() == 1.5
    return "the default fill value is masked: of bytes 1, 2 and 255, the mean is 1.5"


@row(
    SECTION,
    "nmrglue",
    guess="`proc_base.fft` and the unit conversion agree about the sign of a frequency",
    here="`fft_positive` for samples exp(+2 pi i f t)",
)
def mirrored_axis() -> str:
    import nmrglue

    axes = nmrglue.fileiobase.create_blank_udic(1)
    axes[0].update(sw=1000.0, obs=100.0, car=0.0, size=50, complex=True, time=True, freq=False)
    hertz = nmrglue.fileiobase.uc_from_udic(axes).hz
    samples = np.exp(2j * np.pi * 100 * np.arange(50) / 1000)
    transforms = nmrglue.proc_base.fft, nmrglue.proc_base.fft_positive
    seen = [round(float(hertz(int(abs(f(samples)).argmax())))) for f in transforms]
    assert seen == [-100, 100], seen
    return (
        "exp(+2 pi i f t) of 100 Hz is at -100 Hz after `fft`, and at 100 Hz after `fft_positive`"
    )
