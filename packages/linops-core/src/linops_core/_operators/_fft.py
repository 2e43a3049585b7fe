"""The discrete Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from memmap.siblings import check_flags
from nameddim import NamedDimension, NamedShape, as_dims, get_nd_shape

from .._algebra._identity import Identity
from .._algebra._normal import Normal, fit_inner
from .._algebra._slice_by_slice import gains_by_slices
from .._base._copying import linked_copy
from .._base._grid_questions import factor_along, without_fftshift
from .._base._linop import NamedLinop
from .._base._question import always_true
from .._base._roles import Role
from .._kernels._dtype import product_in_wide_dtype
from .._numbers import is_size
from ._grid_names import Dims, GridNames, axes_of
from ._grid_operator import AxisMap, GridOperator, axis_by_axis

ADJOINT_NORM = {"ortho": "ortho", "backward": "forward", "forward": "backward"}


class FFT(GridOperator[AxisMap]):
    r"""The discrete Fourier transform over some dimensions,

    .. math:: y_k = s \sum_n x_n e^{-2 \pi i \, k \cdot n / N},

    with N grid points and :math:`s = N^{-1/2}`, 1 or :math:`N^{-1}` for ``norm`` "ortho",
    "backward" or "forward". The adjoint has the same s. With "ortho" it is the inverse.

    Parameters
    ----------
    ndim : int
        Number of dimensions of the grid, at least 1. They are the last ones and cannot be sliced.
        Not with ``dims``.
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid. They can be sliced. Any dimensions by default.
    grid_shapes : (image dimensions, k-space dimensions), optional
        Names of the grid; by default (Nx, Ny, Nz)[:ndim] and (Kx, Ky, Kz)[:ndim].
    norm : {"ortho", "backward", "forward"}
        As in :func:`torch.fft.fftn`.
    centered : bool
        Whether n and k are counted from the centre of the grid, element N // 2, in both spaces. If
        not, they are counted from the first element.
    dims : sequence of dimensions, optional
        Dimensions of the grid, at any place; instead of ``ndim``.
    shape : sequence of dimensions, optional
        With ``dims``: all dimensions of the input, in order. By default ``("...", *dims)``; in a
        composition, the dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        With ``dims``: their names in the output; by default they keep their names.

    Raises
    ------
    ValueError
        If ndim, norm or the number of grid names is wrong, or dims, shape and to do not fit
        each other.
    TypeError
        When called, if torch has no transform of half precision on the device of the input.

    References
    ----------
    J. W. Cooley and J. W. Tukey, "An algorithm for the machine calculation of complex Fourier
    series", Mathematics of Computation 19 (1965).

    Examples
    --------
    >>> F = FFT(1, norm="backward")
    >>> F(torch.tensor([1.0, 1.0]))
    tensor([2.+0.j, 0.+0.j])
    >>> F.H(F(torch.tensor([1.0, 1.0])))
    tensor([2.+0.j, 2.+0.j])
    >>> FFT(dims=("Nx", "Ny"), shape=("C", "Nx", "Nz", "Ny"))
    FFT (C, Nx, Nz, Ny) -> (C, Nx, Nz, Ny)
    """

    grid_keys = ("image_shape", "kspace_shape")
    takes_any_batch = True
    why_mixed = "a Fourier transform mixes all of its grid"

    def __init__(
        self,
        ndim: int | None = None,
        batch_shape: Dims | None = None,
        grid_shapes: Sequence[Dims] | None = None,
        norm: str = "ortho",
        centered: bool = False,
        *,
        dims: Dims | None = None,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        check_flags("FFT", centered=centered)
        if norm not in [*ADJOINT_NORM]:
            raise ValueError(f"FFT: norm must be one of {[*ADJOINT_NORM]}, got {norm!r}")
        positional = {"ndim": ndim, "batch_shape": batch_shape, "grid_shapes": grid_shapes}
        names = GridNames.given("FFT", dims, shape, to, instead=positional)
        names = names or _of_last_dims(ndim, batch_shape, grid_shapes)
        full = names.shape(image_shape=names.grid, kspace_shape=names.result)
        super().__init__(full, (), names.is_free)
        self.norm, self.centered = norm, centered

    @property
    def ndim(self) -> int:
        """Number of dimensions of the grid."""
        return len(self.shape.other_shapes["image_shape"])

    @staticmethod
    def fn(linop: FFT, x: Tensor, /) -> Tensor:
        """Return the transform of x."""
        return linop.transform(torch.fft.fftn, x, linop.norm)

    @staticmethod
    def adj_fn(linop: FFT, x: Tensor, /) -> Tensor:
        """Return the adjoint transform of x: the inverse, scaled as the forward one is."""
        return linop.transform(torch.fft.ifftn, x, ADJOINT_NORM[linop.norm])

    @staticmethod
    def normal_fn(linop: FFT, x: Tensor, /) -> Tensor:
        """Return s^2 N x."""
        points = math.prod([x.shape[axis] for axis in linop.grid_axes[0]])  # a compiler traces it
        scale = {"ortho": 1, "backward": points, "forward": 1 / max(points, 1)}[linop.norm]
        return product_in_wide_dtype(scale, x)

    adj_normal_fn = normal_fn

    def transform(self, transform: Callable[..., Tensor], x: Tensor, norm: str) -> Tensor:
        """Apply one of torch's transforms along the grid, between the shifts if centred."""
        axes = self.grid_axes[0]
        if not x.numel():  # an empty batch; not every FFT library accepts one
            return x.to(torch.promote_types(x.dtype, torch.complex64))
        shifted = torch.fft.ifftshift(x, dim=axes) if self.centered else x
        y = transform(shifted, dim=axes, norm=norm)
        centred: Tensor = torch.fft.fftshift(y, dim=axes) if self.centered else y
        return centred

    def linked_positions(self) -> Sequence[tuple[int, int]]:
        """Return that all dimensions keep their lengths and places."""
        return [(position, position) for position in range(len(self.ishape))]

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: a transform mixes the whole grid."""
        reason = super().why_opaque(dim)
        advice = "" if self.norm == "ortho" else '; its normal can be sliced with norm="ortho"'
        return reason and reason + advice

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        r"""Return A^H A, or A^H inner A; for a centred transform without its shifts if possible.

        With the shift Q of k-space, the plain transform F, and phases D for the shift of the image,
        A is :math:`Q D F`. If M = ``inner`` acts on each point of k-space separately, and is linear
        over the complex numbers, D cancels: :math:`F^H D^H Q^H M Q D F = F^H (Q^H M Q) F`. So the
        weights are shifted, and not the data.
        """
        if inner is not None and self.centered:
            linop, fitted = fit_inner(self, inner)
            assert isinstance(linop, FFT)
            grid = linop.shape.other_shapes["image_shape" if self.is_adjoint else "kspace_shape"]
            stays = all(fitted.oshape[at] == linop.oshape[at] for at in axes_of(grid, linop.oshape))
            commutes = stays and fitted.is_complex_linear
            if commutes and all(fitted.role(dim) is Role.BATCH for dim in grid):
                shifted = without_fftshift(fitted, grid)
                if shifted is not None:
                    return linked_copy(linop, centered=False).normal(shifted)
        return super().normal(inner)

    def own_normal(self) -> NamedLinop:
        """Return a multiple of the identity."""
        if self.norm == "ortho":
            return Identity.on_input_of(self)
        return Normal(self, NamedShape(self.ishape), multiplies_by="number")


gains_by_slices.register(FFT)(always_true)


factor_along.register(FFT)(axis_by_axis)


@without_fftshift.register(FFT)
def _plain(linop: FFT, dims: Iterable[NamedDimension]) -> NamedLinop | None:
    shapes = linop.shape.other_shapes
    grid = {*shapes["image_shape"], *shapes["kspace_shape"]}
    concerned = grid & set(dims)
    if not concerned:
        return linop
    return linked_copy(linop, centered=False) if linop.centered and concerned == grid else None


def _of_last_dims(
    ndim: int | None, batch: Dims | None, grid_shapes: Sequence[Dims] | None
) -> GridNames:
    """Return the names for a grid of the last ``ndim`` dimensions."""
    if not is_size(ndim):
        raise ValueError(
            f"FFT: ndim must be a positive integer, got {ndim!r}; or name the dimensions, as in "
            'FFT(dims=("Nx", "Ny"))'
        )
    if grid_shapes is None:
        grid_shapes = (get_nd_shape(ndim), get_nd_shape(ndim, kspace=True))
    is_pair = isinstance(grid_shapes, Sequence) and len(grid_shapes) == 2
    are_shapes = is_pair and all(isinstance(names, Iterable) for names in grid_shapes)
    grids = [as_dims(names) for names in grid_shapes] if are_shapes else []
    if [len(names) for names in grids] != [ndim, ndim]:
        raise ValueError(
            f"FFT: grid_shapes must be {ndim} image and {ndim} k-space dimensions, "
            f"got {grid_shapes!r}"
        )
    return GridNames.last(batch, *grids)
