"""Circular shifts: by whole elements, and by any distance through the Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from nameddim import AnyDim

from .._algebra._identity import Identity
from .._base._linop import NamedLinop
from .._base._sizes import per_axis
from .._kernels._extended_axis import ExtendedAxis, with_length
from .._kernels._picked_axis import PickedAxis, picked
from .._kernels._plain import can_read_values
from .._numbers import is_finite, is_integer
from ._grid_names import Dims, GridNames
from ._grid_operator import AxisMap, GridOperator
from ._picks import Sizes, sizes_of


class Roll(GridOperator[ExtendedAxis]):
    r"""A circular shift along some dimensions, :math:`y_n = x_{(n - s) \bmod N}`.

    It is :func:`torch.roll`. The adjoint shifts back, and the normal operator is the identity.

    Parameters
    ----------
    dims : sequence of dimensions
    shifts : sequence of int
        s, of any sign and size, for each dimension; :class:`FourierShift` shifts by fractions.
    sizes : sequence of int, or mapping of dimension to int, optional
        Lengths of ``dims``. Without them any length is accepted, and ``dims`` cannot be sliced.
    shape : sequence of dimensions, optional
        All dimensions of the input, in order. By default ``("...", *dims)``; in a composition, the
        dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        Names of ``dims`` in the output. By default they keep their names and cannot be sliced. With
        other names, a slice of the output reads the shifted slice of the input.

    Raises
    ------
    TypeError
        If shifts or sizes are not sequences.
    ValueError
        If a shift is not an integer, or a size not a positive integer, or there is not one for each
        dimension.

    Examples
    --------
    >>> import torch
    >>> Roll(("N",), [1])(torch.tensor([1.0, 2.0, 3.0]))
    tensor([3., 1., 2.])
    >>> A = Roll(("N",), [1], [8], to=("M",))
    >>> A.split(A, {"M": slice(4, 6)}).support("N")
    slice(3, 5, None)
    """

    is_real = True
    takes_any_batch = True

    def __init__(
        self,
        dims: Dims,
        shifts: Sequence[int],
        sizes: Sizes | None = None,
        *,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        names = GridNames.along("Roll", dims, shape, to)
        checked = per_axis("Roll", "shifts", shifts)
        if len(checked) != len(names.grid) or not all(map(is_integer, checked)):
            raise ValueError(
                f"Roll: shifts must be integers, one for each of {names.grid}, got {checked}; "
                "FourierShift shifts by fractions"
            )
        self._shifts = [int(shift) for shift in checked]
        lengths = () if sizes is None else sizes_of("Roll", names.grid, sizes)
        full = names.shape(from_grid=names.grid, to_grid=names.result)
        super().__init__(full, self._whole(lengths) if lengths else (), names.is_free)

    @staticmethod
    def fn(linop: Roll, x: Tensor, /) -> Tensor:
        """Return x shifted."""
        x = linop.gathered(x)
        return linop.scattered(_rolled(x, linop._axes_for(x), 1))

    @staticmethod
    def adj_fn(linop: Roll, x: Tensor, /) -> Tensor:
        """Return x shifted back."""
        x = linop.gathered_back(x)
        return linop.scattered_back(_rolled(x, linop._axes_for(x), -1))

    def own_normal(self) -> NamedLinop:
        """Return the identity, or for a tile the tile followed by its adjoint."""
        if all(axis.is_ring for axis in self._axes):
            return Identity.on_input_of(self)
        return super().own_normal()

    def _axes_for(self, x: Tensor) -> Sequence[ExtendedAxis]:
        return self._axes or self._whole(x.shape[x.ndim - len(self._shifts) :])

    def _whole(self, sizes: Sequence[int]) -> list[ExtendedAxis]:
        pairs = zip(sizes, self._shifts, strict=True)
        return [ExtendedAxis(n, n, 1, shift % max(n, 1), n, "circular") for n, shift in pairs]


class FourierShift(GridOperator[AxisMap]):
    r"""A circular shift along some dimensions by any distance, through the Fourier transform,

    .. math:: y = F^H \operatorname{diag}(e^{-2 \pi i k s / N}) F x,

    with the unitary transform F along a dimension of N points and the frequencies :math:`k =
    -\lfloor N / 2 \rfloor, \dots, \lceil N / 2 \rceil - 1`. It interpolates x at n - s by
    trigonometric polynomials. For integers it is :class:`Roll`. It is unitary: the adjoint shifts
    by -s, and the normal operator is the identity.

    Parameters
    ----------
    dims : sequence of dimensions
        They cannot be sliced.
    shifts : sequence of float, or Tensor
        s in elements, one for each dimension. A real tensor of shape (D,) is a weight: it is read
        when the operator is called, and gradients reach it. A Parameter stays a Parameter. Only the
        first values are checked; NaN that are written into it later give NaN.
    shape : sequence of dimensions, optional
        All dimensions of the input, in order. By default ``("...", *dims)``; in a composition, the
        dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        Names of ``dims`` in the output; by default they keep their names.

    Raises
    ------
    TypeError
        If the shifts are neither a sequence nor a tensor of real numbers.
    ValueError
        If there is not one finite shift for each dimension.

    Notes
    -----
    The result is complex, in the precision of the input (at least single precision) for
    shifts of any dtype; gradients to the shifts have their dtype. For odd N, the result of a real
    signal is real within rounding. For even N, the frequency -N / 2 has no partner N / 2. Its phase
    is :math:`e^{\pi i s}`, as in SciPy's ``fourier_shift``, so that shifts by s and by t add up to
    a shift by s + t. This component of a real signal becomes complex. Programs that return real
    signals multiply it by :math:`\cos \pi s`, which is the real part of this result.

    Examples
    --------
    >>> import torch
    >>> t = 2 * torch.pi * torch.arange(5) / 5
    >>> y = FourierShift(("N",), [0.25])(torch.cos(t))
    >>> torch.allclose(y.real, torch.cos(t - 0.25 * 2 * torch.pi / 5), atol=1e-6)
    True
    """

    takes_any_batch = True
    why_mixed = "a shift through the Fourier transform mixes all of the dimension"

    def __init__(
        self,
        dims: Dims,
        shifts: Sequence[float] | Tensor,
        *,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        names = GridNames.along("FourierShift", dims, shape, to)
        n_dims = len(names.grid)
        if isinstance(shifts, Tensor):
            if not shifts.is_floating_point():
                raise TypeError(
                    f"FourierShift: shifts must be a tensor of real numbers, got {shifts.dtype}"
                )
            if shifts.shape != (n_dims,):
                raise ValueError(
                    f"FourierShift: shifts must have the shape ({n_dims},) for {names.grid}, got "
                    f"{tuple(shifts.shape)}"
                )
            if can_read_values(shifts) and not shifts.isfinite().all():
                raise ValueError(f"FourierShift: shifts must be finite, got {shifts.tolist()}")
            numbers = None
        else:
            numbers = per_axis("FourierShift", "shifts", shifts)
            if len(numbers) != n_dims or not all(map(is_finite, numbers)):
                raise ValueError(
                    f"FourierShift: shifts must be finite real numbers, one for each of "
                    f"{names.grid}, got {numbers}"
                )
        axis_of_shifts = AnyDim(0).next_unused({*names.names, *names.output})
        full = names.shape(from_grid=names.grid, to_grid=names.result, shifts=(axis_of_shifts,))
        super().__init__(full, (), names.is_free)
        self._numbers = None if numbers is None else tuple(map(float, numbers))
        if isinstance(shifts, Tensor):
            self.register_weight("shifts", shifts, "shifts", is_geometry=True)

    @staticmethod
    def fn(linop: FourierShift, x: Tensor, /) -> Tensor:
        """Return x shifted."""
        return linop.scattered(linop._shifted(linop.gathered(x), 1))

    @staticmethod
    def adj_fn(linop: FourierShift, x: Tensor, /) -> Tensor:
        """Return x shifted back."""
        return linop.scattered_back(linop._shifted(linop.gathered_back(x), -1))

    def _shifted(self, x: Tensor, sign: int) -> Tensor:
        shifts: Sequence[float] | Sequence[Tensor]
        if self._numbers is not None:
            shifts = self._numbers
        else:
            shifts = self.weight_part("shifts").double().unbind()
        x = x.to(torch.promote_types(x.dtype, torch.complex64))
        if not x.numel():  # an empty batch; not every FFT library accepts one
            return x
        axes = tuple(range(-len(shifts), 0))
        spectrum = torch.fft.fftn(x, dim=axes)
        for axis, shift in zip(axes, shifts, strict=True):
            size = x.shape[axis]
            # In double precision: the angles are large, and there are few of them.
            turns = torch.fft.fftfreq(size, dtype=torch.float64, device=x.device) * shift
            angle = -2 * torch.pi * sign * turns
            phase = torch.complex(angle.cos(), angle.sin()).to(x.dtype)
            spectrum = spectrum * phase.reshape(-1, *[1] * (-1 - axis))
        result: Tensor = torch.fft.ifftn(spectrum, dim=axes)
        return result

    def own_normal(self) -> NamedLinop:
        """Return the identity."""
        return Identity.on_input_of(self)


def _rolled(x: Tensor, axes: Sequence[ExtendedAxis], sign: int) -> Tensor:
    """Return x shifted along its last axes, or shifted back; they may be parts of rings."""
    numbered = [*enumerate(axes, -len(axes))]
    if rings := {number: sign * axis.before for number, axis in numbered if axis.is_ring}:
        x = x.roll([*rings.values()], [*rings])
    for number, axis in numbered:
        if number in rings:
            continue
        parts = [x.new_zeros(with_length(x, number, axis.lengths[0 if sign < 0 else 1]))]
        for stretch in axis.stretches:
            n_input, n_output, _, before = stretch.straight
            if sign < 0:
                moved = picked(x.movedim(number, -1), [PickedAxis(n_output, n_input, before)])
                parts.append(stretch.put_back(moved.movedim(-1, number), number))
            else:
                moved = stretch.taken(x, number).movedim(number, -1)
                moved = picked(moved, [PickedAxis(n_input, n_output, -before)])
                parts.append(moved.movedim(-1, number))
        x = reduce(torch.add, parts)
    return x
