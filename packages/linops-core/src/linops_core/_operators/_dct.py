"""The discrete cosine transform."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .._algebra._identity import Identity
from .._base._grid_questions import factor_along
from .._base._linop import NamedLinop
from .._kernels._dtype import as_parts
from .._kernels._real_transforms import cosine_transform, inverse_cosine_transform
from ._grid_names import Dims, GridNames
from ._grid_operator import AxisMap, GridOperator, axis_by_axis


class DCT(GridOperator[AxisMap]):
    r"""The orthonormal discrete cosine transform (DCT-II) along some dimensions,

    .. math:: y_k = s_k \sum_n x_n \cos \frac{\pi (2n + 1) k}{2N}, \quad
        s_0 = N^{-1/2}, \; s_k = (2/N)^{1/2},

    where N is the length of the dimension. The adjoint is the inverse, so ``A.N`` is the identity.

    Parameters
    ----------
    dims : sequence of dimensions
        Dimensions to transform. They cannot be sliced.
    shape : sequence of dimensions, optional
        All dimensions of the input, with ``dims`` at any places. By default ``("...", *dims)``; in
        a composition, the dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        Names of ``dims`` in the output; by default they keep their names.

    Raises
    ------
    ValueError
        If ``dims``, ``shape`` and ``to`` do not fit each other.
    TypeError
        When called, if torch has no transform of half precision on the device of the input.

    References
    ----------
    N. Ahmed, T. Natarajan and K. R. Rao, "Discrete cosine transform", IEEE Transactions on
    Computers C-23 (1974), 90-93.

    Examples
    --------
    >>> A = DCT(("Nx",))
    >>> A(torch.ones(4)).round(decimals=5).abs()
    tensor([2., 0., 0., 0.])
    """

    is_real = True
    takes_any_batch = True
    why_mixed = "a cosine transform mixes all of its grid"

    def __init__(self, dims: Dims, shape: Dims | None = None, to: Dims | None = None) -> None:
        names = GridNames.along("DCT", dims, shape, to)
        full = names.shape(from_grid=names.grid, to_grid=names.result)
        super().__init__(full, (), names.is_free)

    @staticmethod
    def fn(linop: DCT, x: Tensor, /) -> Tensor:
        """Return the transform of x."""
        return _along(cosine_transform, x, linop.grid_axes[0])

    @staticmethod
    def adj_fn(linop: DCT, x: Tensor, /) -> Tensor:
        """Return the inverse transform of x."""
        return _along(inverse_cosine_transform, x, linop.grid_axes[0])

    def own_normal(self) -> NamedLinop:
        """Return the identity."""
        return Identity.on_input_of(self)


factor_along.register(DCT)(axis_by_axis)


def _along(transform: Callable[[Tensor], Tensor], x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return x transformed along each of the axes; a complex x by its parts."""
    if x.is_complex():
        from_end = tuple([axis if axis < 0 else axis - x.ndim for axis in axes])
        parts = _along(transform, as_parts(x), from_end)
        # Not torch.complex, whose gradient vmap cannot take apart where it is a lazy conjugate.
        return torch.view_as_complex(parts.movedim(0, -1).contiguous())
    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    if not x.numel():  # an empty batch; not every FFT library accepts one
        return x
    for axis in axes:
        x = transform(x.movedim(axis, -1)).movedim(-1, axis)
    return x
