"""Pictures of images, stacks, volumes and sinograms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from linops_core.siblings import as_tensor, check_flags, check_integer
from nameddim import NamedDimension, as_dims

from ._extras import optional_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    Array = Tensor | np.ndarray[Any, Any]

__all__ = ["show"]

COLUMNS = 6


def show(
    x: Array | Sequence[Array] | Mapping[str, Array],
    dims: Sequence[str] | None = None,
    *,
    title: str = "",
    limits: tuple[float, float] | None = None,
    phase: bool = False,
    upright: bool = False,
    aspect: Literal["equal", "auto"] = "equal",
    max_panels: int = 12,
    axes: Axes | np.ndarray[Any, Any] | None = None,
) -> Figure | SubFigure:
    """Draw images with Matplotlib: magnitudes and, with ``phase=True``, phases.

    All images have one scale of grays, so that they can be compared. Pixels that are not finite
    are red. A notebook shows the figure below its cell. In a script, call
    ``matplotlib.pyplot.show()`` afterwards, or ``figure.savefig(path)``.

    Parameters
    ----------
    x : Tensor or numpy.ndarray, or a sequence of them, or a mapping
        Real, complex, integer or bool, shape (..., rows, columns), on any device. The last two
        axes are an image. The other axes, such as coils or slices, are drawn side by side. The
        keys of a mapping are the titles.
    dims : sequence of str, optional
        The names of the axes, e.g. ``("C", "Nx", "Ny")``, for labels and titles. An array with
        fewer axes has the last names.
    title : str
        The title of a single array.
    limits : (float, float), optional
        The values that are black and white. Default: 0 and the largest magnitude or, if real
        values are negative, the least and the largest value.
    phase : bool
        If True, draw the phase of each image in addition, in radians from -pi to pi, on black. A
        pixel of smaller magnitude is darker.
    upright : bool
        If False, the first axis of an image points down and the second to the right, as in a
        matrix. If True, the first axis points to the right and the second up.
    aspect : str
        ``"equal"``: pixels are square. ``"auto"``: the image fills its panel, which suits
        sinograms.
    max_panels : int
        How many images of one array are drawn at most. If it has more, those that are drawn have
        equal distances. Titles have the indices.
    axes : matplotlib.axes.Axes or array of them, optional
        Where to draw: one for each image, and then one for each phase. Default: a new figure with
        a bar of the grays.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If Matplotlib is not installed (the extra ``show``).
    TypeError
        If ``max_panels`` is not an integer, ``limits`` are not two numbers, ``axes`` are no axes,
        or x is not of arrays of numbers, such as a sparse tensor.
    ValueError
        If an array has fewer than two axes, no elements, or more axes than ``dims`` has names, if
        there is no array, or if the number of ``axes`` is not that of the panels.
    """
    check_flags("show", phase=phase, upright=upright)
    pyplot = optional_module("matplotlib.pyplot", "show", "show")
    check_integer("show", "max_panels", max_panels, 1)
    if limits is not None:
        try:
            low, high = map(float, limits)
        except (TypeError, ValueError):
            raise TypeError(
                f"show: limits must be two numbers, of black and of white, got {limits!r}"
            ) from None
    if aspect not in ("equal", "auto"):
        raise ValueError(f"show: aspect must be 'equal' or 'auto', got {aspect!r}")
    names = () if dims is None else as_dims(dims)
    images = [
        panel
        for key, array in titled_arrays(x, title)
        for panel in panels(key, checked_arrays(array, names), names, max_panels)
    ]
    if not images:
        raise ValueError("show: x must have at least one array, got none")
    if limits is None:
        low, high = common_limits([image for _, image in images])
    all_axes = panels_of(axes, len(images) * (1 + phase), min(len(images), COLUMNS), pyplot)
    grays = pyplot.get_cmap("gray").with_extremes(bad="red")

    def draw(axes: Axes, name: str, pixels: Any, **options: Any) -> Any:
        pixels = pixels.swapaxes(0, 1)[::-1] if upright else pixels
        drawn = axes.imshow(pixels, aspect=aspect, **options)
        axes.set(title=name, xticks=[], yticks=[])
        if names:
            down, right = map(str, names[-2:])
            axes.set(xlabel=down if upright else right, ylabel=right if upright else down)
        return drawn

    for panel_axes, (name, image) in zip(all_axes, images, strict=False):
        values = image.abs() if image.is_complex() else image
        drawn = draw(panel_axes, name, values.numpy(), cmap=grays, vmin=low, vmax=high)
    if axes is None:
        pyplot.colorbar(drawn, ax=all_axes[: len(images)])
    for panel_axes, (name, image) in zip(all_axes[len(images) :], images, strict=False):
        largest = max(abs(low), abs(high)) or 1.0
        brightness = (image.abs() / largest).nan_to_num(0).clamp(0, 1)[..., None]
        angles = image.angle().nan_to_num(0) / (2 * math.pi) + 0.5
        colours = pyplot.get_cmap("hsv")(angles.numpy())[..., :3]
        draw(panel_axes, f"phase of {name}" if name else "phase", colours * brightness.numpy())
    figure: Figure | SubFigure = all_axes[0].figure
    return figure


def titled_arrays(
    x: Array | Sequence[Array] | Mapping[str, Array], title: str
) -> Iterator[tuple[str, Tensor]]:
    """Yield the arrays with their titles."""
    if isinstance(x, Tensor | np.ndarray):
        x = {title: x}
    if not isinstance(x, Mapping | Sequence) or isinstance(x, str):
        raise TypeError(
            f"show: x must be a tensor, an array, a sequence or a mapping of them, got {type(x)}"
        )
    pairs = x.items() if isinstance(x, Mapping) else (("", array) for array in x)
    for key, array in pairs:
        if not isinstance(array, Tensor):
            array = np.asarray(array)
            if array.dtype.kind not in "biufc":
                raise TypeError(f"show: an array must have numbers, got {array.dtype}")
        tensor = array if isinstance(array, Tensor) else as_tensor(array)
        if tensor.layout is not torch.strided or tensor.is_meta:
            kind = "meta" if tensor.is_meta else tensor.layout
            raise TypeError(f"show: a tensor must be dense and have values, got {kind}")
        yield str(key), tensor.detach()


def checked_arrays(array: Tensor, names: tuple[NamedDimension, ...]) -> Tensor:
    if array.ndim < 2 or not array.numel():
        raise ValueError(
            "show: an array must have two axes or more and at least one element, got the shape "
            f"{tuple(array.shape)}"
        )
    if names and array.ndim > len(names):
        raise ValueError(
            f"show: dims must name each axis of an array of the shape {tuple(array.shape)}, got "
            f"({', '.join(map(str, names))})"
        )
    return array


def panels(
    title: str, array: Tensor, names: tuple[NamedDimension, ...], most: int
) -> Iterator[tuple[str, Tensor]]:
    """Yield the images of an array on the CPU in double precision, with their titles."""
    stack = array.shape[:-2]
    count = math.prod(stack)
    labels = [f"{name} = " for name in names[len(names) - array.ndim :]] or [""] * array.ndim
    for number in range(min(count, most)):
        # The middles of `most` equal parts of the stack.
        flat = number if count <= most else ((2 * number + 1) * count) // (2 * most)
        index = tuple(int(k) for k in np.unravel_index(flat, stack))
        at = ", ".join(f"{label}{k}" for label, k in zip(labels, index, strict=False))
        dtype = torch.complex128 if array.is_complex() else torch.float64
        yield ", ".join(filter(None, (title, at))), array[index].to("cpu", dtype).resolve_conj()


def common_limits(images: Sequence[Tensor]) -> tuple[float, float]:
    """Return the least value, or 0, and the largest one of all finite values."""
    real = [image.abs() if image.is_complex() else image for image in images]
    finite = torch.cat([image[image.isfinite()] for image in real])
    if not finite.numel():
        return 0.0, 1.0
    return min(0.0, float(finite.min())), float(finite.max())


def panels_of(
    axes: Axes | np.ndarray[Any, Any] | None, count: int, columns: int, pyplot: Any
) -> list[Any]:
    """Return the axes of ``count`` panels, in a new figure by default."""
    if axes is None:
        rows = -(-count // columns)
        size = (2.2 * columns + 1, 2.4 * rows)
        _, grid = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
        for panel in grid.flat[count:]:
            panel.set_axis_off()
        return list(grid.flat[:count])
    panels = list(getattr(axes, "flat", [axes]))
    if not all(hasattr(panel, "imshow") for panel in panels):
        raise TypeError(f"show: axes must be axes of Matplotlib or an array of them, got {axes!r}")
    if len(panels) != count:
        raise ValueError(f"show: axes must be {count}, one for each panel, got {len(panels)}")
    return panels
