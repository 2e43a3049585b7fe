"""Files read back, also by nibabel."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linops_imaging.io import read_nifti, write_nifti

nibabel = pytest.importorskip("nibabel")
AFFINE = torch.tensor(
    [[0, -2.0, 0, 5], [1, 0, 0, -3], [0, 0, 3, 1.5], [0, 0, 0, 1]], dtype=torch.float64
)
DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.complex64, torch.complex128),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=7),
    st.sampled_from(DTYPES),
    st.sampled_from(["a.nii", "a.nii.gz"]),
)
def test_what_is_written_is_read(
    tmp_path: Path, shape: list[int], dtype: torch.dtype, name: str
) -> None:
    values = torch.randint(0, 99, shape, generator=torch.Generator().manual_seed(0))
    image = (values * (1 - 2j) if dtype.is_complex else values).to(dtype)
    write_nifti(tmp_path / name, image, AFFINE)
    result, affine, codes = read_nifti(tmp_path / name, return_codes=True)
    assert torch.equal(result.view(shape), image.to(result.dtype))
    assert result.dtype.is_complex == dtype.is_complex
    assert torch.equal(affine, AFFINE) and codes == {"sform": 1, "qform": 1}
    theirs = nibabel.load(tmp_path / name)
    np.testing.assert_array_equal(theirs.affine, AFFINE)
    np.testing.assert_array_equal(np.asarray(theirs.dataobj).reshape(shape), result.view(shape))


def test_lazy_views_are_written_as_they_are(tmp_path: Path) -> None:
    x = torch.randn(2, 3, 4, dtype=torch.complex64, requires_grad=True)
    for image in (x.conj(), x.conj().imag, x.permute(2, 0, 1)):
        write_nifti(tmp_path / "a.nii", image, AFFINE)
        assert torch.equal(read_nifti(tmp_path / "a.nii")[0], image.detach())


@pytest.mark.parametrize("place", [0.0, 200.0])
def test_a_shear_has_no_qform(tmp_path: Path, place: float) -> None:
    affine = AFFINE.clone()
    affine[0, 0] = 0.125  # an eighth of a voxel, and of the last voxels more
    affine[:3, 3] = place
    write_nifti(tmp_path / "a.nii", torch.ones(2, 3, 4), affine)
    _, result, codes = read_nifti(tmp_path / "a.nii", return_codes=True)
    assert torch.equal(result, affine) and codes == {"sform": 1, "qform": 0}


def test_times_and_units(tmp_path: Path) -> None:
    write_nifti(tmp_path / "a.nii", torch.ones(2, 3, 4, 5), AFFINE, time_step=1.5)
    header = nibabel.load(tmp_path / "a.nii").header
    assert header.get_zooms() == (1, 2, 3, 1.5)
    assert header.get_xyzt_units() == ("mm", "sec")
    write_nifti(tmp_path / "a.nii", torch.ones(2, 3, 4), AFFINE, time_step=1.5)
    assert nibabel.load(tmp_path / "a.nii").header["pixdim"][4] == 1.5
    write_nifti(tmp_path / "a.nii", torch.ones(2, 3, 4), AFFINE)
    assert nibabel.load(tmp_path / "a.nii").header.get_xyzt_units() == ("mm", "unknown")


def test_an_axis_beyond_32767_is_written_as_nifti_2(tmp_path: Path) -> None:
    image = torch.arange(40000, dtype=torch.int32)
    write_nifti(tmp_path / "a.nii", image, AFFINE)
    assert torch.equal(read_nifti(tmp_path / "a.nii")[0], image)
    assert isinstance(nibabel.load(tmp_path / "a.nii"), nibabel.Nifti2Image)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "a.img"}, ValueError, r"write_nifti: a.img must end with .nii or .nii.gz"),
        ({"image": np.ones(3)}, TypeError, "must be a torch.Tensor, got <class 'numpy"),
        (
            {"image": torch.eye(2).to_sparse()},
            TypeError,
            "must be dense, got the layout",
        ),
        ({"image": torch.ones(2, 0)}, ValueError, r"elements and values, got shape \(2, 0\) on"),
        ({"image": torch.ones([1] * 8)}, ValueError, "must have one to seven axes"),
        ({"image": torch.ones(2, device="meta")}, ValueError, r"values, got shape \(2,\) on meta"),
        ({"affine": torch.eye(3)}, ValueError, r"must be an invertible \(4, 4\) matrix in mm"),
        ({"affine": torch.zeros(4, 4)}, ValueError, r"last row \[0, 0, 0, 1\], got \[\[0.0"),
        ({"time_step": 0.0}, ValueError, "time_step must be positive and finite, got 0.0"),
    ],
)
def test_bad_arguments_are_refused(
    tmp_path: Path, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    given = {"name": "a.nii", "image": torch.ones(2), "affine": AFFINE} | arguments
    path = tmp_path / str(given.pop("name"))
    with pytest.raises(error, match=message):
        write_nifti(path, **given)  # type: ignore[arg-type]
    assert not path.exists()


def test_a_dtype_that_nifti_lacks(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"must have a dtype that NIfTI has, got torch\.float8"):
        write_nifti(tmp_path / "a.nii", torch.ones(2).to(torch.float8_e4m3fn), AFFINE)


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.nii.gz"
    write_nifti(path, torch.ones(2, 2), AFFINE)

    def interrupted(image: object, to: str | Path) -> None:
        Path(to).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(nibabel, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_nifti(path, torch.zeros(3, 3), AFFINE)
    assert torch.equal(read_nifti(path)[0], torch.ones(2, 2)) and [*tmp_path.iterdir()] == [path]
