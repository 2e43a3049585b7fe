"""X-ray transforms of other libraries, as ours.

In an array of rows (down) and columns (right), both libraries have the detector coordinate ``column
cos(angle) - row sin(angle)`` from the middle. Ours is ``axis 0 cos(angle) + axis 1 sin(angle)``, so
that our angle is theirs plus 90 degrees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from linops_core import Embed, NamedLinop, Rearrange, Scalar, Slice, from_scipy
from linops_core.siblings import check_flags
from nameddim import ELLIPSES, NamedDimension, as_dims

from .._checks import sizes_of_grid
from .._extras import optional_module
from .._xray._fan_beam import FanBeam
from .._xray._parallel_beam import ParallelBeam
from ._matching_operator import matching_operator

if TYPE_CHECKING:
    from numpy.typing import NDArray

Names: TypeAlias = Sequence[NamedDimension | str]


def from_skimage(
    theta: Tensor | NDArray[Any] | Sequence[float],
    image_shape: Sequence[int],
    circle: bool = True,
    output_shape: Names = ("D", "A"),
    input_shape: Names = ("Nx", "Ny"),
    batch_shape: Names | None = None,
) -> NamedLinop:
    r"""Return the operator of scikit-image's ``radon(image, theta, circle)``.

    Angles are in degrees. The image is turned about pixel ``N // 2``, which is the middle of
    detector ``n // 2``; sinograms have detectors before angles.

    Parameters
    ----------
    theta : Tensor, array or sequence of float
        (A,), in degrees. Gradients reach a tensor.
    image_shape : (int, int)
        Rows and columns of the image.
    circle : bool
        As in ``radon``: True for as many detectors as rows, False for as many as the diagonal has.
    output_shape : (dimension, dimension)
        Dimensions of detectors and angles.
    input_shape : (dimension, dimension)
        Dimensions of rows and columns.
    batch_shape : sequence of dimensions, optional
        Dimensions before the image; any by default.

    Returns
    -------
    NamedLinop
        A :class:`ParallelBeam` with the same geometry. ``radon`` turns the image and adds rows,
        ours integrates along rays, so that smooth images agree to about 1 %. Its ``H`` is the exact
        adjoint, which scikit-image does not have: ``iradon(filter_name=None)`` is neither the
        adjoint nor scaled like it. For ``iradon`` see :func:`fbp`.

    Raises
    ------
    ValueError
        If there are not two sizes, or ``circle`` is given for an image that is not square, of which
        ``radon`` cuts a part.
    """
    check_flags("from_skimage", circle=circle)
    sizes = sizes_of_grid("from_skimage", image_shape, 2, name="image_shape")
    if circle and sizes[0] != sizes[1]:
        raise ValueError(
            f"from_skimage: image_shape must be square if circle is True, got {sizes}; cut the "
            "image, or pass circle=False"
        )
    n_detectors = (
        sizes[0] if circle else max(sizes) + math.ceil(math.sqrt(2) * max(sizes) - max(sizes))
    )
    # Ours are centred between the pixels and detectors, theirs on one: add one where they are even.
    odd = tuple([size + 1 - size % 2 for size in sizes])
    n_odd = n_detectors + 1 - n_detectors % 2
    # Numbers in a list would be of the default dtype.
    angles = torch.as_tensor(theta, dtype=None if hasattr(theta, "dtype") else torch.float64)
    angles = angles if angles.is_floating_point() else angles.double()
    batch = as_dims(("...",) if batch_shape is None else batch_shape)
    image, (detectors, views) = as_dims(input_shape), as_dims(output_shape)
    A: NamedLinop = ParallelBeam(
        torch.deg2rad(angles) + math.pi / 2,
        n_odd,
        odd,
        output_shape=(views, detectors),
        input_shape=image,
        batch_shape=batch,
    )
    larger = {str(dim): slice(0, n) for dim, n, m in zip(image, sizes, odd, strict=True) if n < m}
    if larger:
        lengths = {str(dim): m for dim, m in zip(image, odd, strict=True)}
        A = A @ Embed(larger, [lengths[dim] for dim in larger], shape=A.ishape)
    if n_odd > n_detectors:
        A = Slice({detectors: slice(0, n_detectors)}, [n_odd], shape=A.oshape) @ A
    sides = (*batch, views, detectors), (*batch, detectors, views)
    kept = ["..." if dim == ELLIPSES else f"b{axis}" for axis, dim in enumerate(batch)]
    before, after = (" ".join([*kept, *last]) for last in (("a", "d"), ("d", "a")))
    return Rearrange(before, after, *sides) @ A


def from_astra(
    projector: int | Mapping[str, Any],
    volume: Mapping[str, Any] | None = None,
    output_shape: Names = ("A", "D"),
    input_shape: Names = ("Nx", "Ny"),
    batch_shape: Names | None = None,
) -> NamedLinop:
    r"""Return the operator of a projector of ASTRA in two dimensions, or of its geometries.

    Lengths are those of ASTRA's volume geometry, in which a pixel has side 1 by default. ASTRA's
    angle 0 has detectors along the columns of the image, with rows downwards.

    Parameters
    ----------
    projector : int or dict
        The number of a projector; or a projection geometry, "parallel" or "fanflat".
    volume : dict, optional
        The volume geometry, with a projection geometry.
    output_shape : (dimension, dimension)
        Dimensions of angles and detectors.
    input_shape : (dimension, dimension)
        Dimensions of rows and columns.
    batch_shape : sequence of dimensions, optional
        Dimensions before the image; any by default. Without a closed form only ``("...",)``.

    Returns
    -------
    NamedLinop
        For geometries, and for projectors that compute the same ("linear", and those of CUDA), a
        :class:`ParallelBeam` or :class:`FanBeam`. For the others ("line", "strip",
        "line_fanflat", ...) an operator with ASTRA's sparse matrix, on the CPU. ``H`` is the exact
        adjoint of both.

    Raises
    ------
    ImportError
        If a number is given and ASTRA is not installed (the extra ``astra``).
    TypeError
        If only one of two geometries is given.
    ValueError
        If the geometry is of another type, pixels are not square, or the middle of the volume is
        not the origin.
    """
    names = {"output_shape": output_shape, "input_shape": input_shape, "batch_shape": batch_shape}
    if isinstance(projector, Mapping) == (volume is None):
        raise TypeError(
            "from_astra: there must be the number of a projector, or a projection geometry and a "
            f"volume geometry, got {type(projector)} and {type(volume)}"
        )
    if isinstance(projector, Mapping) and volume is not None:
        return _of_geometries(projector, volume, **names)
    astra = optional_module("astra", "from_astra", "astra")
    rays = astra.projector.projection_geometry(projector)
    pixels = astra.projector.volume_geometry(projector)
    if astra.projector.is_cuda(projector):
        return _of_geometries(rays, pixels, **names)
    sizes = int(pixels["GridRowCount"]), int(pixels["GridColCount"])

    def candidates() -> Iterator[NamedLinop]:
        if rays["type"] in ("parallel", "fanflat"):
            yield _of_geometries(rays, pixels, **names)
        at = astra.projector.matrix(projector)
        matrix = astra.matrix.get(at).copy()
        astra.matrix.delete(at)
        n_views = len(rays["ProjectionAngles"] if "ProjectionAngles" in rays else rays["Vectors"])
        row, column, view, detector = map(str, (*input_shape, *output_shape))
        lengths = {row: sizes[0], column: sizes[1], view: n_views}
        sides = (*(("...",) if batch_shape is None else batch_shape), row, column)
        yield from_scipy(matrix, sides, (*sides[:-2], view, detector), lengths)

    def theirs(x: Tensor) -> Tensor:
        number, sinogram = astra.create_sino(x.numpy(), projector)
        astra.data2d.delete(number)
        return torch.from_numpy(sinogram)

    return matching_operator("from_astra", candidates(), theirs, sizes, torch.float32, 1e-4)


def _of_geometries(
    rays: Mapping[str, Any], pixels: Mapping[str, Any], **names: Names | None
) -> NamedLinop:
    sizes = int(pixels["GridRowCount"]), int(pixels["GridColCount"])
    # The one that was made has "option", the one that a projector returns has "options".
    window = pixels.get("option", pixels.get("options"))
    spans = [
        (float(window[f"WindowMin{axis}"]), float(window[f"WindowMax{axis}"])) for axis in "YX"
    ]
    sides = [(last - first) / size for (first, last), size in zip(spans, sizes, strict=True)]
    is_square = math.isclose(*sides, rel_tol=1e-9)
    if not is_square or any(abs(sum(span)) > 1e-9 * (span[1] - span[0]) for span in spans):
        raise ValueError(
            "from_astra: the volume must have square pixels and the origin in its middle, got a "
            f"window of {spans} for {sizes}"
        )
    side, kind = sides[0], rays["type"]
    distances = ["DistanceOriginSource", "DistanceOriginDetector"] if kind == "fanflat" else []
    if kind not in ("parallel", "fanflat"):
        raise ValueError(f'from_astra: the rays must be "parallel" or "fanflat", got {kind!r}')
    angles = torch.as_tensor(rays["ProjectionAngles"], dtype=torch.float64) + math.pi / 2
    make: Any = FanBeam if distances else ParallelBeam
    given = {name: value for name, value in names.items() if value is not None}
    A: NamedLinop = make(
        angles,
        int(rays["DetectorCount"]),
        sizes,
        *[rays[name] / side for name in distances],
        detector_spacing=rays["DetectorWidth"] / side,
        **given,
    )
    return A if side == 1 else Scalar(side, A.oshape) @ A
