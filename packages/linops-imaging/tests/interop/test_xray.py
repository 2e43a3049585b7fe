"""Geometries of scikit-image and ASTRA; ``witnesses`` has the libraries themselves."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core.testing import dottest
from linops_imaging import interop

RAYS = {
    "type": "parallel",
    "DetectorCount": 16,
    "DetectorWidth": 1.0,
    "ProjectionAngles": np.array([0.0, math.pi / 2]),
}


def volume(*sizes: int, side: float = 1.0, off: float = 0.0) -> dict[str, Any]:
    window = {}
    for axis, size in zip("YX", sizes, strict=True):
        window[f"WindowMin{axis}"] = off - side * size / 2
        window[f"WindowMax{axis}"] = off + side * size / 2
    return {"GridRowCount": sizes[0], "GridColCount": sizes[1], "option": window}


def pixel() -> Tensor:
    x = torch.zeros(16, 16, dtype=torch.float64)
    x[2, 5] = 1
    return x


def test_where_one_pixel_is_seen() -> None:
    result = interop.from_skimage([0.0, 90.0], (16, 16))(pixel())
    assert result.argmax(0).tolist() == [8 - 3, 8 + 6] and result.shape == (16, 2)
    assert interop.from_astra(RAYS, volume(16, 16))(pixel()).argmax(1).tolist() == [5, 13]
    fan = {**RAYS, "type": "fanflat", "DistanceOriginSource": 1e4, "DistanceOriginDetector": 0.0}
    assert interop.from_astra(fan, volume(16, 16))(pixel()).argmax(1).tolist() == [5, 13]


@given(st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_scikit_images_middle_and_number_of_detectors(m: int, n: int, circle: bool) -> None:
    """A pixel in the middle is seen by the middle detector from everywhere."""
    n = m if circle else n
    names: Any = {"output_shape": ("S", "V"), "input_shape": ("R", "C"), "batch_shape": ("B",)}
    A = interop.from_skimage(torch.arange(0, 180, 30.0), (m, n), circle, **names)
    assert A.ishape == ("B", "R", "C") and A.oshape == ("B", "S", "V")
    x = torch.zeros(1, m, n, dtype=torch.float64)
    x[0, m // 2, n // 2] = 1
    y = A(x)[0]
    assert len(y) == (m if circle else math.ceil(math.sqrt(2) * max(m, n)))
    assert (y.argmax(0) == len(y) // 2).all()
    dottest(A, {"B": 2})


@given(st.sampled_from([0.5, 3.0]))
def test_integrals_have_the_unit_of_astras_pixels(side: float) -> None:
    rays = {**RAYS, "DetectorWidth": side}
    x = torch.rand(16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    one = interop.from_astra(RAYS, volume(16, 16))(x)
    torch.testing.assert_close(interop.from_astra(rays, volume(16, 16, side=side))(x), side * one)


class Astra(SimpleNamespace):
    """The functions of ASTRA that are called, for one projector with a random matrix."""

    def __init__(self, is_cuda: bool) -> None:
        scipy = pytest.importorskip("scipy.sparse")
        dense = np.random.default_rng(0).random((32, 256)).astype(np.float32)
        projector = SimpleNamespace(
            projection_geometry=lambda number: RAYS,
            volume_geometry=lambda number: volume(16, 16),
            is_cuda=lambda number: is_cuda,
            matrix=lambda number: 7,
        )
        super().__init__(
            projector=projector,
            matrix=SimpleNamespace(get=lambda at: scipy.csr_array(dense), delete=lambda at: None),
            data2d=SimpleNamespace(delete=lambda at: None),
            create_sino=lambda x, number: (0, (dense @ x.flatten()).reshape(2, 16)),
        )
        self.dense = dense


@pytest.mark.parametrize("is_cuda", [True, False])
def test_a_projector_that_is_not_ours_is_its_matrix(
    is_cuda: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    astra: Any = Astra(is_cuda)
    monkeypatch.setitem(sys.modules, "astra", astra)
    x = pixel()
    result = interop.from_astra(3)(x)
    expected = torch.from_numpy(astra.dense).double() @ x.flatten()
    ours = interop.from_astra(RAYS, volume(16, 16))(x)
    torch.testing.assert_close(result, ours if is_cuda else expected.view(2, 16))
    dottest(interop.from_astra(3), dtypes=[torch.float64])


@pytest.mark.parametrize("default", [torch.float32, torch.bfloat16])
def test_angles_in_a_list_are_double(default: torch.dtype) -> None:
    angles, x = [10.1, 33.3, 77.7], torch.randn(8, 8, dtype=torch.float64)
    wanted = interop.from_skimage(torch.tensor(angles, dtype=torch.float64), (8, 8), False)(x)
    torch.set_default_dtype(default)
    try:
        result = interop.from_skimage(angles, (8, 8), False)(x)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(result, wanted)


def test_bad_geometries_are_refused() -> None:
    with pytest.raises(ValueError, match="from_skimage: image_shape must be square if circle"):
        interop.from_skimage([0.0], (4, 5))
    with pytest.raises(TypeError, match="from_astra: there must be the number of a projector, or"):
        interop.from_astra(RAYS)
    for wrong in (volume(16, 16, off=1.0), {**volume(16, 16), "GridRowCount": 8}):
        with pytest.raises(ValueError, match="from_astra: the volume must have square pixels and"):
            interop.from_astra(RAYS, wrong)
    with pytest.raises(ValueError, match=r"from_astra: the rays must be .*, got 'parallel_vec'"):
        interop.from_astra({**RAYS, "type": "parallel_vec"}, volume(16, 16))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "astra", None)
        with pytest.raises(ImportError, match="astra"):
            interop.from_astra(1)
