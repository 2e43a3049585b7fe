"""Wavelet transforms of other libraries: any wavelet, any extension of the signal, any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from linops_core import GridNames, NamedLinop
from linops_core.siblings import check_integer
from nameddim import NamedDimension, NamedShape, as_dims

from .._checks import sizes_of_grid
from .._extras import optional_module
from .._wavelet import Wavelet, lowpass_filters
from ._matching_operator import matching_operator

if TYPE_CHECKING:
    from pywt import Wavelet as PyWavelet

Names: TypeAlias = Sequence[NamedDimension | str]


class FilterBank(NamedLinop):
    """A wavelet transform whose levels are matrices along each axis.

    ``matrices`` has, for each level and axis, the low and the high filter, (2 M, N). Coefficients
    are packed as by PyWavelets' ``coeffs_to_array``: the approximations first, then the details of
    each level, with zeros beside them where bands do not fill the array.
    """

    def __init__(self, shape: NamedShape, matrices: Sequence[Sequence[Tensor]], name: str) -> None:
        super().__init__(shape, name)
        self.n_levels, self.n_axes = len(matrices), len(matrices[0])
        for level, of_axes in enumerate(matrices):
            for axis, matrix in enumerate(of_axes):
                self.register_buffer(f"filters_{level}_{axis}", matrix)

    @staticmethod
    def fn(linop: FilterBank, x: Tensor, /) -> Tensor:
        """Return the coefficients."""
        return linop._analyzed(linop._floating(x))

    @staticmethod
    def adj_fn(linop: FilterBank, x: Tensor, /) -> Tensor:
        """Return the adjoint, which is no inverse."""
        return linop._transposed(linop._floating(x))

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``."""
        of_sides = self.shape.other_shapes
        names = (*of_sides["grid"], *of_sides["coefficients"])
        sizes = zip(names, self._sizes() + self._packed(), strict=True)
        return dict(sizes).get(NamedDimension.infer(dim))

    def _filters(self, level: int) -> list[Tensor]:
        return [getattr(self, f"filters_{level}_{axis}") for axis in range(self.n_axes)]

    def _sizes(self) -> tuple[int, ...]:
        return tuple(matrix.shape[1] for matrix in self._filters(0))

    def _bands(self, level: int) -> tuple[int, ...]:
        return tuple(len(matrix) // 2 for matrix in self._filters(level))

    def _corner(self, level: int) -> tuple[Any, ...]:
        return (..., *map(slice, self._bands(level)))

    def _packed(self) -> tuple[int, ...]:
        """Return the number of approximations and of details of all levels, for each axis."""
        last = self._bands(self.n_levels - 1)
        levels = [last, *map(self._bands, range(self.n_levels))]
        return tuple(map(sum, zip(*levels, strict=True)))

    def _details(self, level: int) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Yield for each band but the first: where it is in the level, and in the result."""
        size = self._bands(level)
        deeper = [
            self._bands(self.n_levels - 1),
            *map(self._bands, range(level + 1, self.n_levels)),
        ]
        first = tuple(map(sum, zip(*deeper, strict=True)))
        for is_high in product((False, True), repeat=self.n_axes):
            if any(is_high):
                reads = [
                    slice(n, 2 * n) if h else slice(n) for n, h in zip(size, is_high, strict=True)
                ]
                writes = [
                    slice(at, at + n) if h else slice(n)
                    for at, n, h in zip(first, size, is_high, strict=True)
                ]
                yield (..., *reads), (..., *writes)

    def _analyzed(self, x: Tensor) -> Tensor:
        levels = []
        for level in range(self.n_levels):
            levels.append(self._along_axes(x, [matrix.mT for matrix in self._filters(level)]))
            x = levels[-1][self._corner(level)]
        # Like what is written into it, also under torch.func.vmap.
        y = x.new_zeros(*x.shape[: x.ndim - self.n_axes], *self._packed())
        y[self._corner(self.n_levels - 1)] = x
        for level, bands in enumerate(levels):
            for source, target in self._details(level):
                y[target] = bands[source]
        return y

    def _transposed(self, y: Tensor) -> Tensor:
        x = y[self._corner(self.n_levels - 1)]
        for level in reversed(range(self.n_levels)):
            batch = x.shape[: x.ndim - self.n_axes]
            whole = x.new_zeros(*batch, *(2 * n for n in self._bands(level)))
            whole[self._corner(level)] = x
            for source, target in self._details(level):
                whole[source] = y[target]
            x = self._along_axes(whole, self._filters(level))
        return x

    def _along_axes(self, x: Tensor, matrices: Sequence[Tensor]) -> Tensor:
        for axis, matrix in enumerate(matrices, -self.n_axes):
            x = (x.movedim(axis, -1) @ matrix.to(x.dtype)).movedim(-1, axis)
        return x

    @staticmethod
    def _floating(x: Tensor) -> Tensor:
        is_number = x.is_floating_point() or x.is_complex()
        return x if is_number else x.to(torch.get_default_dtype())


def from_pywt(
    wavelet: str | PyWavelet,
    dims: Names,
    sizes: Sequence[int],
    mode: str = "symmetric",
    level: int | None = None,
    out_dims: Names | None = None,
    batch_shape: Names | None = None,
) -> NamedLinop:
    """Return the operator of PyWavelets' ``coeffs_to_array(wavedecn(x, wavelet, mode, level))[0]``.

    Parameters
    ----------
    wavelet : str or pywt.Wavelet
        Any discrete wavelet, also biorthogonal ones.
    dims : sequence of dimensions
        Dimensions of the grid, the last ones of the input. They cannot be sliced.
    sizes : sequence of int
        Sizes of the grid, also odd ones.
    mode : str
        How the signal is extended, as in PyWavelets: "symmetric", "zero", "periodization", ...
    level : int, optional
        At least 1. By default PyWavelets' largest number.
    out_dims : sequence of dimensions, optional
        Dimensions of the coefficients; by default ``dims`` with the next index (Nx -> Nx1). They
        are longer than ``dims`` in all modes but "periodization".
    batch_shape : sequence of dimensions, optional
        Dimensions before the grid. Any dimensions by default.

    Returns
    -------
    NamedLinop
        A :class:`Wavelet` where that is the same: orthonormal wavelets, "periodization" and sizes
        that ``2**level`` divides. Otherwise an operator with a matrix for each level and axis,
        which PyWavelets computes. Its ``H`` is the exact adjoint. PyWavelets has none: ``waverecn``
        is an inverse, and differs from the adjoint in all other modes.

    Raises
    ------
    ImportError
        If PyWavelets is not installed (the extra ``pywt``).
    ValueError
        If PyWavelets does not know the wavelet or mode, the sizes or ``out_dims`` do not fit the
        dimensions, or the level is less than 1.
    """
    return _filter_bank("from_pywt", wavelet, dims, sizes, mode, level, out_dims, batch_shape)


def from_ptwt(
    wavelet: str | PyWavelet,
    dims: Names,
    sizes: Sequence[int],
    mode: str = "reflect",
    level: int | None = None,
    out_dims: Names | None = None,
    batch_shape: Names | None = None,
) -> NamedLinop:
    """Return the operator of ptwt's ``wavedec``, ``wavedec2`` or ``wavedec3``.

    The coefficients are packed as by PyWavelets' ``coeffs_to_array``. ptwt computes the same
    coefficients as PyWavelets, but extends by "reflect" where no mode is given, and PyWavelets by
    "symmetric".

    Parameters
    ----------
    wavelet, dims, sizes, level, out_dims, batch_shape
        As in :func:`from_pywt`; one to three dimensions.
    mode : str
        Of ptwt: "reflect", "zero", "constant", "periodic" or "symmetric".

    Returns
    -------
    NamedLinop
        As from :func:`from_pywt`. Its ``H`` is the exact adjoint; ptwt's ``waverec`` is an inverse.

    Raises
    ------
    ImportError
        If ptwt is not installed (the extra ``ptwt``).
    ValueError
        As in :func:`from_pywt`, and if ptwt computes something else.
    """
    ptwt = optional_module("ptwt", "from_ptwt", "ptwt")
    A = _filter_bank("from_ptwt", wavelet, dims, sizes, mode, level, out_dims, batch_shape)
    n_axes, n_levels = len(as_dims(dims)), A.n_levels if isinstance(A, FilterBank) else level
    if n_axes > 3:
        raise ValueError(f"from_ptwt: dims must be one to three, got {dims}")
    transform = (ptwt.wavedec, ptwt.wavedec2, ptwt.wavedec3)[n_axes - 1]
    pywt = optional_module("pywt", "from_ptwt", "ptwt")

    def theirs(x: Tensor) -> Tensor:
        first, *details = transform(x.unsqueeze(0), wavelet, mode=mode, level=n_levels)
        packed, _ = pywt.coeffs_to_array([first[0].numpy(), *map(_arrays, details)])
        return torch.from_numpy(packed)

    return matching_operator("from_ptwt", [A], theirs, sizes, torch.float64, 1e-6)


def _arrays(part: Any) -> Any:
    """Return the details of a level as PyWavelets has them, for a batch of one."""
    names = {1: ("d",), 3: ("da", "ad", "dd")}  # horizontal, vertical and diagonal
    if not isinstance(part, dict):
        parts = (part,) if isinstance(part, Tensor) else part
        part = dict(zip(names[len(parts)], parts, strict=True))
    return {name: value[0].numpy() for name, value in part.items()}


def _filter_bank(
    owner: str,
    wavelet: str | PyWavelet,
    dims: Names,
    sizes: Sequence[int],
    mode: str,
    level: int | None,
    out_dims: Names | None,
    batch_shape: Names | None,
) -> NamedLinop:
    pywt = optional_module("pywt", owner, owner.removeprefix("from_"))
    numpy = optional_module("numpy", owner, owner.removeprefix("from_"))
    grid = as_dims(dims)
    lengths = sizes_of_grid(owner, sizes, len(grid), name="sizes")
    of_grid, of_result = ("dims", grid, grid), ("out_dims", out_dims, None)
    why = f"a grid of {lengths}"
    names = GridNames.of(owner, (None,) * 3, batch_shape, of_grid, of_result, why)
    filters = pywt.Wavelet(wavelet) if isinstance(wavelet, str) else wavelet
    most = pywt.dwtn_max_level(lengths, filters)
    n_levels = check_integer(owner, "level", most if level is None else level)
    if n_levels < 1:
        raise ValueError(
            f"{owner}: level must be at least 1, got {n_levels} for sizes of {lengths} "
            f"and filters of {filters.dec_len} taps"
        )
    is_whole = all(size % 2**n_levels == 0 for size in lengths)
    # A wavelet with filters of a user may have the name of another.
    is_ours = filters.name in lowpass_filters() and (
        filters.filter_bank == pywt.Wavelet(filters.name).filter_bank
    )
    if mode == "periodization" and is_whole and is_ours:
        return Wavelet(filters.name, grid, lengths, n_levels, out_dims, batch_shape)
    shape = names.shape(grid=names.grid, coefficients=names.result)
    matrices = []
    for _ in range(n_levels):
        of_axes = [
            numpy.concatenate(pywt.dwt(numpy.eye(size), filters, mode, axis=0)) for size in lengths
        ]
        matrices.append([torch.from_numpy(matrix) for matrix in of_axes])
        lengths = tuple([len(matrix) // 2 for matrix in of_axes])
    return FilterBank(shape, matrices, f"{filters.name} ({mode})")
