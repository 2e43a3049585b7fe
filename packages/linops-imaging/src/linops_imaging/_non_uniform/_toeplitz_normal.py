"""The normal operator of a NUFFT as a convolution; kernels follow locations and weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial, reduce
from itertools import product
from typing import NamedTuple, cast

import torch
from torch import Tensor

from linops_core import Dense, GridNames, NamedLinop, Wrapper, linear_function
from linops_core.siblings import Kept, acts_as, normal_around
from nameddim import ND, NamedDimension, get_nd_shape

from ._kept_by_content import Key, may_be_kept, view_key
from ._method import NufftRequest
from ._methods import adjoint_for_kernels
from ._normal_factors import NormalFactors
from ._toeplitz import KernelTransform, Phases, kernel_transform, write_convolutions


class ToeplitzNormal(Wrapper):
    """A composition that :class:`NormalFactors` describes, applied as a convolution.

    Its roles of dimensions are those of the composition, which is its operand. Where no kernel may
    be kept, the composition itself is applied: while gradients to locations or weights are
    recorded, and under tracing or transforms.

    Parameters
    ----------
    chain : NamedLinop
        A composition that has :class:`NormalFactors`.
    """

    def __init__(self, chain: NamedLinop) -> None:
        super().__init__(chain)
        self._kept: Kept[Tensor] = Kept()

    @classmethod
    def of(cls, chain: NamedLinop) -> NamedLinop:
        """Return the operator around ``chain``, or ``chain`` if it is not a convolution."""
        return chain if NormalFactors.of(chain) is None else cls(chain).as_endomorphism()

    @property
    def name(self) -> str:
        """The given name, else the name of the operator with ``.N``."""
        return self._name or f"{cast(NamedLinop, self._factors().transform).name}.N"

    @staticmethod
    def fn(linop: ToeplitzNormal, x: Tensor, /) -> Tensor:
        """Return A^H D A x."""
        if torch.compiler.is_compiling():
            return linop.linop(x)
        factors = linop._factors()
        tensors = factors.tensors()
        if not factors.is_real() or not may_be_kept(x, tensors) or not x.numel():
            return linop.linop(x)
        check_device(linop.name, x, tensors[0])
        dtypes = [t.dtype for t in (x, *tensors[1:])]  # locations do not decide the dtype
        x = x.to(reduce(torch.promote_types, dtypes, torch.complex64))
        back = linop if factors.right is None else cast(ToeplitzNormal, linop.H)
        return linear_function(linop._convolved, back._convolved, x, *tensors)

    conj, own_normal = NamedLinop.conj, NamedLinop.own_normal
    _check_vector = NamedLinop._check_vector  # the operand is mostly not asked

    def kernels(self, dtype: torch.dtype) -> Iterator[Sequence[Sequence[KernelTransform]]]:
        """Yield the kernels of each frame in a real dtype, the last frame fastest.

        Row i has the kernels from each coefficient to coefficient i.
        """
        factors = self._factors()
        interpolate = factors.transform.interpolate
        locs, of_points = interpolate.weight_part("locs"), factors.of_points()
        tensors = factors.tensors()
        columns = _columns(factors, tensors, factors.right, factors.input_dims[0])
        rows = _columns(factors, tensors, factors.left, factors.output_dims[0])
        frames = interpolate.shape.other_shapes["frames"]
        lengths = zip(frames, locs.shape, strict=False)
        choices = [[slice(None)] if dim in factors.merged else range(n) for dim, n in lengths]
        for index in cast("Iterator[tuple[slice | int, ...]]", product(*choices)):
            weight = None if of_points is None else of_points[index]
            sizes = factors.transform.grid_size
            frame = _Frame(sizes, locs[index], weight, is_squared=factors.is_squared, dtype=dtype)
            find = partial(self._kernel, tensors, frame)
            yield [
                [find(row and row.at(index), column and column.at(index)) for column in columns]
                for row in rows
            ]

    def _kernel(
        self, tensors: Sequence[Tensor], frame: _Frame, row: _Column | None, column: _Column | None
    ) -> KernelTransform:
        """Return the kernel of the weights conj(row) column of points."""
        of_frame = frame.key()
        if row is None or column is None:
            return KernelTransform(
                self._kept.get_or_make(tensors, of_frame, lambda: frame.kernel(frame.ones()))
            )
        is_conjugate = row.key() > column.key()  # one kernel serves both orders
        first, second = (row, column) if is_conjugate else (column, row)
        at = (*of_frame, first.key(), second.key())

        def kernel(component: Callable[[Tensor], Tensor]) -> Tensor:
            right, left = (each.values.to(torch.complex128) for each in (first, second))
            return frame.kernel(component(left.conj() * right))

        real = self._kept.get_or_make(tensors, (*at, "real"), lambda: kernel(torch.real))
        if row.key() == column.key() or not (row.values.is_complex() or column.values.is_complex()):
            return KernelTransform(real)
        imag = self._kept.get_or_make(tensors, (*at, "imag"), lambda: kernel(torch.imag))
        return KernelTransform(real, imag, is_conjugate)

    def _convolved(self, x: Tensor) -> Tensor:
        factors = self._factors()
        sizes, has_coefficients = factors.transform.grid_size, int(factors.right is not None)
        n_last = len(factors.input_dims)
        last = tuple(range(-n_last, 0))
        moved = x.movedim(factors.axes(self.ishape, factors.input_dims), last)
        batch, last_sizes = moved.shape[: x.ndim - n_last], moved.shape[x.ndim - n_last :]
        frames = last_sizes[has_coefficients : len(last_sizes) - len(sizes)]
        n_columns = last_sizes[0] if has_coefficients else 1
        images = moved.reshape(math.prod(batch), n_columns, math.prod(frames), *sizes)
        result: Tensor | None = None
        for frame, kernels in enumerate(self.kernels(x.real.dtype)):
            if result is None:
                result = x.new_empty(len(images), len(kernels), *images.shape[2:])
            write_convolutions(images[:, :, frame], kernels, sizes, into=result[:, :, frame])
        assert result is not None
        n_rows = result.shape[1 : 1 + has_coefficients]
        result = result.reshape(*batch, *n_rows, *frames, *sizes)
        return result.movedim(last, factors.axes(self.oshape, factors.output_dims))

    def _factors(self) -> NormalFactors:
        factors = NormalFactors.of(self.linop)
        assert factors is not None
        return factors


@normal_around.register(ToeplitzNormal)
def _of_coefficients(inner: ToeplitzNormal, linop: NamedLinop) -> NamedLinop | None:
    """Return the convolution of coefficients, if that needs fewer kernels than the frames."""
    if not acts_as(linop, Dense):
        return None
    normal = ToeplitzNormal.of(linop.normal(inner.linop))
    factors = normal._factors() if isinstance(normal, ToeplitzNormal) else None
    if factors is None or (factors.right is not linop and not factors.merged):
        return None
    locs = factors.transform.interpolate.weight_part("locs")
    frames = factors.transform.interpolate.shape.other_shapes["frames"]
    n_frames = math.prod(
        n for dim, n in zip(frames, locs.shape, strict=False) if dim in factors.merged
    )
    n = len(factors.coefficients(linop, factors.input_dims[0]))
    n_kernels = n * n if linop.weight.is_complex() else n * (n + 1) // 2
    return normal if n_kernels < n_frames else None


class _Column(NamedTuple):
    """Weights of one coefficient, for frames and points."""

    number: int
    """Of the tensor."""
    values: Tensor

    def at(self, index: tuple[int | slice, ...]) -> _Column:
        """Return the weights of one frame."""
        return _Column(self.number, self.values[index])

    def key(self) -> Key:
        """Return what tells it from other coefficients."""
        return self.number, *view_key(self.values), self.values.is_conj()


def _columns(
    factors: NormalFactors, tensors: Sequence[Tensor], factor: Dense | None, dim: NamedDimension
) -> Sequence[_Column | None]:
    """Return the weights of each coefficient."""
    if factor is None:
        return [None]
    (number,) = (n for n, tensor in enumerate(tensors) if tensor is factor.weight)
    return [_Column(number, values) for values in factors.coefficients(factor, dim)]


class _Frame:
    """The points of one frame, for its kernels."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        locs: Tensor,
        weights: Tensor | None,
        *,
        is_squared: bool,
        dtype: torch.dtype,
    ) -> None:
        self._sizes, self._locs, self._weights, self._dtype = sizes, locs, weights, dtype
        self._is_squared = is_squared

    def key(self) -> Key:
        """Return what tells this frame from others of the same tensors."""
        weights = None if self._weights is None else view_key(self._weights)
        return (view_key(self._locs), weights, self._dtype)

    def ones(self) -> Tensor:
        """Return the number 1 for all points."""
        return torch.ones((), dtype=self._locs.dtype, device=self._locs.device)

    def kernel(self, factors: Tensor) -> Tensor:
        """Return the kernel of the weights times real factors."""
        weights = self._weights
        if weights is None:
            weights = factors.expand(self._locs.shape[:-1])
        else:
            if self._is_squared:
                weights = weights.to(torch.complex128).abs().square()
            weights = weights * factors
        at, adjoint = self._adjoint
        return kernel_transform(at, weights.reshape(-1), self._sizes, adjoint, self._dtype)

    @cached_property
    def _adjoint(self) -> tuple[Tensor, Callable[[Phases], Tensor]]:
        """The locations, and the adjoint NUFFT of values there."""
        sizes = self._sizes
        grid_size = torch.tensor(sizes, dtype=torch.float64, device=self._locs.device)
        at = self._locs.reshape(-1, len(sizes)).double()
        at = at - grid_size * (at / grid_size).round()  # the same values, and smaller phases
        tol = 1e-11 if self._dtype == torch.float64 else 2e-5
        image, grid = get_nd_shape(len(sizes)), get_nd_shape(len(sizes), kspace=True)
        names = GridNames((ND("B"), *image), image, grid)
        return at, adjoint_for_kernels(NufftRequest(at, sizes, tol, None, (ND("P"),), names))


def check_device(name: str, x: Tensor, locs: Tensor) -> None:
    """Refuse an input on another device than the locations."""
    if x.device != locs.device:
        raise ValueError(
            f"{name}: the input must be on the device of the locations, {locs.device}, got "
            f"{x.device}; move one of them"
        )
