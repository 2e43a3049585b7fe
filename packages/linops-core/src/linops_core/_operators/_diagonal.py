"""Elementwise multiplication."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Self, SupportsFloat, SupportsIndex

import torch
from torch import Tensor
from torch.nn import Parameter

from nameddim import ELLIPSES, AnyDim, NamedDimension, NamedShape, as_dims

from .._algebra._slice_by_slice import gains_by_slices
from .._base._copying import linked_copy
from .._base._dimensions import is_part_of
from .._base._linop import NamedLinop
from .._base._question import always_true
from .._base._sliceable import SliceableLinop
from .._kept import Kept
from .._kernels._accumulate import writing_is_safe
from .._kernels._contraction import axes_along, letters_of
from .._kernels._dtype import is_dense, not_a_tensor, product_in_wide_dtype
from .._kernels._powers import repeated_power, why_not_raised
from .._numbers import is_integer
from ._grid_names import Dims


class Diagonal(SliceableLinop):
    r"""Elementwise multiplication :math:`x \mapsto w \odot x`.

    Every dimension is a batch dimension and can be sliced. ``A ** p`` multiplies by :math:`w^p` for
    any real p; like ``A.H``, it reads the weight when it is called.

    Parameters
    ----------
    weight : Tensor
        Real or complex, of the shape of ``ioshape`` without a leading ``...``; it is the same for
        all elements of ``...``. It is not copied, unless it is a lazy conjugate, ``w.conj()``; a
        Parameter stays a Parameter.
    ioshape : sequence of dimensions, optional
        Dimensions of input and output; by default ``...`` and an unnamed dimension for each axis.
    broadcast_dims : sequence of dimensions, optional
        Dimensions in which the weight has size 1 and is broadcast, or which it does not have.
    weight_shape, shape_kwargs : optional
        As in :meth:`from_weight`.

    Raises
    ------
    TypeError
        If the weight is not a tensor.
    ValueError
        If the weight does not fit ``ioshape``. Only ``broadcast_dims`` are broadcast.

    Examples
    --------
    >>> import torch
    >>> D = Diagonal(torch.tensor([1j, 2j]), ("N",))
    >>> D.H(torch.tensor([1j, 1j]))
    tensor([1.+0.j, 2.+0.j])
    >>> W = Diagonal(torch.tensor([4.0, 9.0]), ("N",))
    >>> (W**0.5)(torch.ones(2)), (W**-1)(torch.tensor([8.0, 9.0]))
    (tensor([2., 3.]), tensor([2., 1.]))
    """

    weight: Tensor
    _checked: Kept[bool]
    """Of a power: that all weights have it."""

    def __init__(
        self,
        weight: Tensor,
        ioshape: Dims | None = None,
        broadcast_dims: Dims | None = None,
        *,
        weight_shape: Dims | None = None,
        shape_kwargs: Mapping[str, Dims] | None = None,
    ) -> None:
        if not is_dense(weight):
            raise not_a_tensor("Diagonal", "weight", weight)
        if ioshape is None:
            ioshape = ("...", *(AnyDim(axis + 1) for axis in range(weight.ndim)))
        dims = as_dims(ioshape)
        broadcast = as_dims(() if broadcast_dims is None else broadcast_dims)
        if weight_shape is None:
            weight_shape = dims[dims[:1] == (ELLIPSES,) :]
            if weight.ndim == len(weight_shape) - len({*broadcast}):
                # They are not dimensions of the weight; otherwise they have size 1 there.
                weight_shape = tuple([dim for dim in weight_shape if dim not in broadcast])
                broadcast = ()
        others = {**(shape_kwargs or {}), "weight_shape": weight_shape}
        super().__init__(NamedShape(dims, **others))
        self.register_weight("weight", weight, "weight_shape", broadcast)
        weight_dims = self.shape.other_shapes["weight_shape"]
        for dim in weight_dims:
            if dim == ELLIPSES or dim not in self.ishape:
                raise ValueError(
                    f"{self.name}: every dimension of the weight must be one of {self.shape}, "
                    f"got {dim}"
                )
        self._alignment = axes_along(*letters_of(weight_dims, self.ishape))
        self._exponents: tuple[float, ...] = ()

    @classmethod
    def from_weight(
        cls,
        weight: Tensor,
        weight_shape: Dims,
        ioshape: Dims,
        shape_kwargs: Mapping[str, Dims] | None = None,
        *,
        broadcast_dims: Dims | None = None,
    ) -> Self:
        """Make a Diagonal whose weight has only some dimensions of ``ioshape``, in any order.

        It is broadcast along the others without being expanded in memory. ``shape_kwargs`` are
        further tuples of dimensions, which the shape of the operator keeps under their names.

        Examples
        --------
        >>> import torch
        >>> D = Diagonal.from_weight(torch.tensor([1.0, 2.0]), ("N",), ("N", "C"))
        >>> D(torch.ones(2, 3)).sum(1)
        tensor([3., 6.])
        """
        return cls(
            weight, ioshape, broadcast_dims, weight_shape=weight_shape, shape_kwargs=shape_kwargs
        )

    @staticmethod
    def fn(linop: Diagonal, x: Tensor, /) -> Tensor:
        """Return w x."""
        return product_in_wide_dtype(linop.aligned_weight(x.ndim), x)

    @staticmethod
    def adj_fn(linop: Diagonal, x: Tensor, /) -> Tensor:
        """Return conj(w) x."""
        return product_in_wide_dtype(linop.aligned_weight(x.ndim).conj(), x)

    @staticmethod
    def normal_fn(linop: Diagonal, x: Tensor, /) -> Tensor:
        """Return ``|w|^2 x``."""
        weight = linop.aligned_weight(x.ndim)
        conjugate, is_plain = weight.conj(), writing_is_safe()
        if is_plain and x.is_complex() and not weight.is_complex():
            # Once, instead of in each product.
            weight = conjugate = weight.to(torch.result_type(weight, x))
        y = product_in_wide_dtype(weight, x)
        return product_in_wide_dtype(conjugate, y, y if is_plain else None)

    adj_normal_fn = normal_fn

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the operator on these dimensions, which must include its own in order."""
        others = dict(self._shape.other_shapes)
        weight_dims = {dim for names in others.values() for dim in names}
        if not is_part_of(self.ishape, dims) or weight_dims & {*dims} - {*self.ishape}:
            return None
        alignment = axes_along(*letters_of(others["weight_shape"], dims))
        return linked_copy(self, NamedShape(dims, **others), _alignment=alignment)

    def aligned_weight(self, ndim: int) -> Tensor:
        """Return a view of the weight that broadcasts against an input of ``ndim`` axes."""
        weight = self.weight_part("weight")
        if self._exponents:
            self._check_powers()
            weight = repeated_power(weight, self._exponents)
        return self._alignment.view(weight, ndim)

    def __pow__(self, exponent: SupportsIndex | SupportsFloat) -> NamedLinop:
        r"""Return the diagonal operator of :math:`w^p`, which reads w when it is called.

        For complex weights it is the principal power, :math:`e^{p \log w}` with the imaginary part
        of the logarithm in :math:`[-\pi, \pi]`. Gradients at zero are infinite for p below 1.

        Parameters
        ----------
        exponent : float
            p, any real number.

        Raises
        ------
        TypeError
            If the exponent is not a real number.
        ValueError
            If p is not finite; if p is not an integer and a real weight is negative; or if p is
            negative and a weight is zero. A call raises it, too, if the weights have changed so.
            Under compilers and transforms of ``torch.func`` the result is NaN or infinite instead.
        """
        is_number = self.weight.is_floating_point() or self.weight.is_complex()
        count = int(exponent) if is_integer(exponent) else -1
        is_real = isinstance(exponent, Real) and not isinstance(exponent, bool)
        if not is_real or count in (0, 1) or (count > 1 and not is_number):
            return super().__pow__(exponent)  # raises a TypeError unless it is a number
        if not math.isfinite(exponent):
            raise ValueError(f"{self.signature}: the exponent must be finite, got {exponent}")
        exponents = (*self._exponents, float(exponent))
        power = linked_copy(self, None, _exponents=exponents, _checked=Kept[bool]())
        power._check_powers()
        return power

    def _check_powers(self) -> None:
        """Check that all weights have the powers, once for each state of the weights."""
        weight, bounds = self._weight("weight"), self._weights["weight"].bounds
        if type(weight) in (Tensor, Parameter) and not weight.is_meta and writing_is_safe():
            self._checked.get_or_make([weight], bounds, self._have_powers)

    def _have_powers(self) -> bool:
        if (reason := why_not_raised(self.weight_part("weight"), self._exponents)) is not None:
            raise ValueError(f"{self.signature}: the weight must {reason}")
        return True

    def extra_repr(self) -> str:
        """Return the text of ``repr`` for the weight and its powers."""
        return " ** ".join([super().extra_repr(), *map(str, self._exponents)])


gains_by_slices.register(Diagonal)(always_true)
