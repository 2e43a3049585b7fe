"""Convolution of a grid with a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import ClassVar, cast

from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims

from .._algebra._shifted import shift_axes
from .._base._copying import linked_copy
from .._base._description import method_of
from .._base._linop import NamedLinop
from .._base._sizes import per_axis
from .._kernels._contraction import Axes, axes_along, letters_of
from .._kernels._correlate import correlated
from .._kernels._dtype import is_dense, not_a_tensor
from .._kernels._extended_axis import ExtendedAxis, Extension
from .._numbers import is_integer, is_size
from ._grid_names import Dims, GridNames
from ._grid_operator import GridOperator, axis_names

_MODES = ("same", "valid", "full")
_PADDING = ("zeros", "circular", "reflect", "replicate")
_METHODS = ("auto", "direct", "fft")


class Convolution(GridOperator[ExtendedAxis]):
    r"""Convolution with a kernel,

    .. math:: y_n = \sum_m k_m \, x_{n - m + c},

    with the centre c of the kernel at index ``size // 2`` along each axis. So a kernel that is 1 at
    its centre is the identity. As in mathematics, the kernel is flipped against the input, unlike
    in :func:`torch.nn.functional.conv2d`.

    ========  =====================================  =======================  ===================
    mode      output, of N points and K taps         c                        outside of the grid
    ========  =====================================  =======================  ===================
    "same"    N points: those of the input           ``offset``, else K // 2  ``padding_mode``
    "valid"   N - K + 1 points: only x on the grid   K - 1                    not read
    "full"    N + K - 1 points: every product        0                        zero
    ========  =====================================  =======================  ===================

    Parameters
    ----------
    kernel : Tensor
        Real or complex, of any size: first the axes of ``kernel_batch_shape``, then one, two or
        three axes along the grid.
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid. They can be sliced. Any dimensions by default.
    in_grid_shape, out_grid_shape : sequence of dimensions, optional
        Dimensions of the grid in the input, by default Nx, Ny, Nz, and in the output, by default
        the same with the next index (Nx1, ...). If ``grid_size`` is given, dimensions that are only
        in the input or only in the output can be sliced.
    padding_mode : {"zeros", "circular", "reflect", "replicate"}
        Values of the input outside of the grid in mode "same": zero; periodic; mirrored at the end
        points, which are not repeated, c b [a b c] b a; or the nearest point, a a [a b c] c c.
        Names are those of :class:`torch.nn.Conv2d`. SciPy's ``ndimage`` calls them "constant",
        "grid-wrap", "mirror" and "nearest".
    kernel_batch_shape : sequence of dimensions, optional
        Batch dimensions with a different kernel for each slice; none by default.
    method : {"auto", "direct", "fft"}
        "direct" sums products; its error is relative to these products. "fft" multiplies spectra;
        its error is relative to the largest value of the input, and an infinite value spreads to
        all points. It refuses integers and, on a CPU, half precision. "auto" takes "direct" for
        kernels of up to 256 bytes, on small grids, and for half precision.
    grid_size : sequence of int, optional
        Size of the grid in the input. Without it, any size is accepted, and the grid cannot be
        sliced.
    mode : {"same", "valid", "full"}
        Part of the output to keep, as in :func:`scipy.signal.convolve`.
    offset : sequence of int, optional
        For mode "same": the index c of the centre of the kernel along each axis, counted from 0.
        For SciPy's "same" give ``(size - 1) // 2``; it differs for kernels of even size.
    dims : sequence of dimensions, optional
        Dimensions of the grid, at any place, in the order of the axes of the kernel; instead of the
        shapes above.
    shape : sequence of dimensions, optional
        With ``dims``: all dimensions of the input, in order. By default ``("...", *dims)``; in a
        composition, the dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        With ``dims``: their names in the output. By default they keep their names and cannot be
        sliced.

    Raises
    ------
    TypeError
        If the kernel is not a tensor, or ``grid_size`` is not a sequence.
    ValueError
        If an argument is not one of the values above, or a dimension of ``kernel_batch_shape`` is
        not in the batch. If the grid is smaller than the kernel in mode "valid": at once with
        ``grid_size``, otherwise when called. When called: if ``grid_size`` was given, the mode is
        "valid" or "full", and the kernel was replaced by one of another size.

    Notes
    -----
    A tile of the output reads its slice of the input and a halo around it. A tile of the input
    writes its slice and a halo. See :meth:`NamedLinop.support`. For tiles at the ends of a periodic
    grid, the halo is at the other end, so the support is the whole grid.

    Examples
    --------
    >>> import torch
    >>> A = Convolution(torch.tensor([1.0, 2.0, 3.0]))
    >>> A(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    tensor([1., 2., 3., 0.])
    >>> A.H(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    tensor([3., 2., 1., 0.])
    >>> Convolution(torch.tensor([1.0, 2.0, 3.0]), mode="full")(torch.tensor([0.0, 1.0, 0.0]))
    tensor([0., 1., 2., 3., 0.])
    >>> Convolution(torch.ones(3), padding_mode="reflect")(torch.tensor([1.0, 2.0, 3.0]))
    tensor([5., 6., 7.])
    >>> A = Convolution(torch.ones(3), grid_size=[8])
    >>> A.split(A, {"Nx1": slice(4, 6)}).support("Nx")
    slice(3, 7, None)
    """

    saved_with: ClassVar[tuple[type, ...]] = (ExtendedAxis,)

    kernel: Tensor
    grid_keys = ("in_grid_shape", "out_grid_shape")
    takes_any_batch = True

    def __init__(
        self,
        kernel: Tensor,
        batch_shape: Dims | None = None,
        in_grid_shape: Dims | None = None,
        out_grid_shape: Dims | None = None,
        padding_mode: str = "zeros",
        *,
        kernel_batch_shape: Dims = (),
        method: str = "auto",
        grid_size: Sequence[int] | None = None,
        mode: str = "same",
        offset: Sequence[int] | None = None,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        choices = (
            ("padding_mode", padding_mode, _PADDING),
            ("method", method, _METHODS),
            ("mode", mode, _MODES),
        )
        for argument, choice, possible in choices:
            if choice not in possible:
                raise ValueError(
                    f"Convolution: {argument} must be one of {[*possible]}, got {choice!r}"
                )
        if mode != "same" and (padding_mode, offset) != ("zeros", None):
            raise ValueError(
                'Convolution: padding_mode and offset must be left out unless mode is "same", '
                f"got {padding_mode!r} and {offset} with {mode!r}"
            )
        if not is_dense(kernel):
            raise not_a_tensor("Convolution", "kernel", kernel)
        kernel_batch = as_dims(kernel_batch_shape)
        ndim = kernel.ndim - len(kernel_batch)
        if ndim not in (1, 2, 3) or not kernel.numel():
            raise ValueError(
                "Convolution: the kernel must have elements, and 1, 2 or 3 dimensions behind those "
                f"of its batch {kernel_batch}, got shape {tuple(kernel.shape)}"
            )
        of_grid = "in_grid_shape", in_grid_shape, axis_names("N", ndim)
        of_result = "out_grid_shape", out_grid_shape, None
        why = f"a kernel of shape {tuple(kernel.shape)}"
        names = GridNames.of("Convolution", (dims, shape, to), batch_shape, of_grid, of_result, why)
        if not set(kernel_batch) <= set(names.batch) - {ELLIPSES}:
            raise ValueError(
                f"Convolution: a dimension of the kernel's batch must be named in the batch "
                f"{names.batch}, got {kernel_batch}"
            )
        of_kernel = (*kernel_batch, *names.grid)
        full = names.shape(
            in_grid_shape=names.grid, out_grid_shape=names.result, kernel_shape=of_kernel
        )
        super().__init__(full, (), names.is_free)
        self.ndim, self.padding_mode, self.method = ndim, padding_mode, method
        self.mode, self.offset = mode, _checked_offset(offset, kernel.shape[len(kernel_batch) :])
        self._taps = kernel.shape[len(kernel_batch) :]
        self.grid_size = None
        if grid_size is not None:
            self.grid_size = per_axis("Convolution", "grid_size", grid_size)
            if len(self.grid_size) != ndim or not all(map(is_size, self.grid_size)):
                raise ValueError(
                    f"Convolution: grid_size must have {ndim} positive numbers, got "
                    f"{self.grid_size}"
                )
            self._axes = self._whole(self.grid_size, self._taps)
        self.register_weight("kernel", kernel, "kernel_shape")
        self._alignment = self._alignment_in(full)

    @staticmethod
    def fn(linop: Convolution, x: Tensor, /) -> Tensor:
        """Return k * x: the correlation with the flipped kernel."""
        x, kernel = linop.gathered(x), linop.aligned_kernel(x.ndim)
        return linop.scattered(linop._correlated(x, kernel, is_back=False))

    @staticmethod
    def adj_fn(linop: Convolution, x: Tensor, /) -> Tensor:
        """Return the correlation of x with conj(k)."""
        x, kernel = linop.gathered_back(x), linop.aligned_kernel(x.ndim).conj().resolve_conj()
        return linop.scattered_back(linop._correlated(x, kernel, is_back=True))

    def _correlated(self, x: Tensor, kernel: Tensor, is_back: bool) -> Tensor:
        taps = kernel if is_back else kernel.flip(tuple(range(-self.ndim, 0)))
        return correlated(x, taps, self.axes_for(x, is_back), self.method, is_back=is_back)

    def axes_for(self, x: Tensor, is_back: bool = False) -> Sequence[ExtendedAxis]:
        """Return the axes for an input of either direction and the current kernel.

        The operator keeps the axes for a kernel of one element.
        """
        taps: Sequence[int] = self.kernel.shape[self.kernel.ndim - self.ndim :]
        if self.padding_mode != "zeros":
            # Numbers, because a compiler takes minutes to compare borders made of its symbols.
            taps = tuple(map(index, taps))
        if self._axes and self.mode != "same" and taps != self._taps:
            raise ValueError(
                f"{self.name}: the kernel must keep the size {tuple(self._taps)} for mode "
                f"{self.mode!r} and a grid_size, got {tuple(taps)}; make a new operator"
            )
        axes = self._axes or self._whole(x.shape[x.ndim - self.ndim :], taps, is_back)
        pairs = zip(axes, taps, self._centre(taps), strict=True)
        return [axis.with_kernel(n, centre) for axis, n, centre in pairs]

    @property
    def axes(self) -> Sequence[ExtendedAxis]:
        """The axes of the correlation with the flipped kernel; empty without ``grid_size``."""
        return self.axes_for(self.kernel) if self._axes else ()

    @property
    def is_endomorphism(self) -> bool:
        """Whether the operator maps a space to itself: not if the grid changes its size."""
        return super().is_endomorphism and (self.mode == "same" or self._is_endomorphism)

    def _centre(self, taps: Sequence[int]) -> Sequence[int]:
        """Return the index of the kernel's centre along each axis."""
        if self.offset is not None:
            return self.offset
        return [{"same": n // 2, "valid": n - 1, "full": 0}[self.mode] for n in taps]

    def _whole(
        self, sizes: Sequence[int], taps: Sequence[int], is_back: bool = False
    ) -> tuple[ExtendedAxis, ...]:
        """Return the axes between the whole grids, given the sizes of one side."""
        sign = {"same": 0, "valid": -1, "full": 1}[self.mode]
        more = [sign * (n - 1) for n in taps]
        if is_back:
            sizes = [size - n for size, n in zip(sizes, more, strict=True)]
        pairs = [(size, size + n) for size, n in zip(sizes, more, strict=True)]
        if self.mode != "same" and any([min(pair) < 1 for pair in pairs]):
            grid = [pair[self.mode == "full"] for pair in pairs]
            side = "output" if self.mode == "full" else "grid"
            raise ValueError(
                f"{self.name}: the {side} must be at least as large as the kernel {tuple(taps)} in "
                f"mode {self.mode!r}, got {tuple(grid)}"
            )
        mode = cast(Extension, self.padding_mode)
        return tuple([ExtendedAxis(n, m, 1, 0, n, mode) for n, m in pairs])

    def aligned_kernel(self, ndim: int) -> Tensor:
        """Return a view of the kernel whose batch fits an input of ``ndim`` axes."""
        kernel = self.weight_part("kernel")
        return kernel if kernel.ndim == self.ndim else self._alignment.view(kernel, ndim)

    def _alignment_in(self, shape: NamedShape) -> Axes:
        """Return how the kernel's axes lie along the axes of an input with its grid last."""
        names = shape.other_shapes
        along = (*names["batch_shape"], *names["in_grid_shape"])
        return axes_along(*letters_of(names["kernel_shape"], along))

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the operator for an input with these dimensions, if the kernel has no others."""
        names = self.shape.other_shapes
        of_batch = {*names["kernel_shape"]} - {*names["in_grid_shape"]}
        return super().fitted_to(dims) if of_batch <= {*dims} else None

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, and the kernel aligned to it."""
        return linked_copy(super().resolved_to(shape), None, _alignment=self._alignment_in(shape))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: names or sizes of the grid are missing."""
        if not self._axes and any(dim in dims for dims in self.axis_dims):
            return "the neighbours of a slice depend on the size of the grid; give grid_size"
        return super().why_opaque(dim)


@shift_axes.register(Convolution)
def _axes_of_rings(linop: Convolution) -> tuple[int, ...]:
    is_ring = linop.padding_mode == "circular" and all([axis.is_ring for axis in linop.axes])
    return linop.grid_axes[linop.is_adjoint] if is_ring else ()


@method_of.register(Convolution)
def _chosen(linop: Convolution) -> str | None:
    return None if linop.method == "auto" else linop.method


def _checked_offset(offset: Sequence[int] | None, taps: Sequence[int]) -> Sequence[int] | None:
    """Return the index of the kernel's centre along each axis, if it is given."""
    if offset is None:
        return None
    offsets = per_axis("Convolution", "offset", offset)
    if len(offsets) != len(taps) or not all(
        is_integer(at, 0) and at < n for at, n in zip(offsets, taps, strict=False)
    ):
        raise ValueError(
            f"Convolution: offset must be an index from 0 within the kernel {tuple(taps)} along "
            f"each axis, got {offsets}"
        )
    return tuple(map(int, offsets))
