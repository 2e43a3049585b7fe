"""The identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from torch import Tensor

from nameddim import NamedDimension, NamedShape, is_wildcard

from .._base._copying import linked_copy
from .._base._dimensions import is_part_of
from .._base._linop import NamedLinop
from .._base._question import acts_as
from .._base._sliceable import SliceableLinop
from .._base._tile import Window
from ._zero import lengths_of


class Identity(SliceableLinop):
    r"""The identity :math:`x \mapsto x`, which may rename dimensions.

    Parameters
    ----------
    ishape : sequence of dimensions
        Any dimensions by default.
    oshape : sequence of dimensions, optional
        As many dimensions as in ``ishape``; the same ones by default.

    Raises
    ------
    ValueError
        If the two shapes have different lengths, or a wildcard is not at the same position in both.

    Examples
    --------
    >>> import torch
    >>> Identity(("Nx",), ("Kx",)).H.shape
    (Kx) -> (Nx)
    """

    is_real = True
    _lengths: Mapping[NamedDimension, int] = MappingProxyType({})
    """Lengths of dimensions, if the identity stands for operators that know them."""

    def __init__(
        self,
        ishape: Sequence[NamedDimension | str] = ("...",),
        oshape: Sequence[NamedDimension | str] | None = None,
    ) -> None:
        super().__init__(NamedShape(ishape, oshape))
        if len(self.ishape) != len(self.oshape):
            raise ValueError(
                f"{self.name}: ishape and oshape must have the same length, got {self.shape}"
            )
        for idim, odim in zip(self.ishape, self.oshape, strict=True):
            if idim != odim and not {idim, odim} <= self.dims:
                raise ValueError(
                    f"{self.name}: a renamed dimension must have a name, got {idim} -> {odim} "
                    f"in {self.shape}"
                )

    @classmethod
    def on_input_of(cls, linop: NamedLinop) -> Identity:
        """Return the identity of the input space, which accepts the sizes that ``linop`` does."""
        sizes = zip(linop.ishape, linop.sizes("input"), strict=True)
        lengths = {dim: n for dim, n in sizes if n is not None and not is_wildcard(dim)}
        return linked_copy(cls(linop.ishape), None, _lengths=lengths)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None if any length is accepted."""
        return self._lengths.get(NamedDimension.infer(dim))

    @staticmethod
    def fn(linop: Identity, x: Tensor, /) -> Tensor:
        """Return x itself."""
        return x

    adj_fn = fn

    takes_any_batch = True

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the identity on these dimensions, which must include its own."""
        if self.ishape == self.oshape and is_part_of(self.ishape, dims, in_order=False):
            return linked_copy(self, NamedShape(dims))
        return super().fitted_to(dims)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: it has another name on the other side."""
        for idim, odim in zip(self.ishape, self.oshape, strict=True):
            if idim != odim and dim in (idim, odim):
                return (
                    f"it is {idim} in the input and {odim} in the output, and an Identity does "
                    f"not know its length n; use one name on both sides, or PadDim('{idim}', n, n, "
                    "ishape, oshape)"
                )
        return None

    def linked_positions(self) -> Sequence[tuple[int, int]]:
        """Return that input and output have the same dimensions at the same positions."""
        return [(position, position) for position in range(len(self.ishape))]

    def own_normal(self) -> NamedLinop:
        """Return the identity of the input space."""
        return Identity.on_input_of(self)

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the identity of the slices of each window."""
        if not self._lengths:
            return [self] * len(windows)
        lengths = self._lengths
        cuts = [{d: piece for d, piece in window.items() if d in lengths} for window in windows]
        return [linked_copy(self, None, _lengths={**lengths, **lengths_of(cut)}) for cut in cuts]

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the identity with other names for its dimensions."""
        other = super().renamed(names)
        if other is self:
            return self
        lengths = {names.get(dim, dim): n for dim, n in self._lengths.items()}
        return linked_copy(other, None, _lengths=lengths)


def is_identity(linop: NamedLinop) -> bool:
    """Whether ``linop`` is an Identity that renames nothing; compositions omit it."""
    return acts_as(linop, Identity) and linop.ishape == linop.oshape


def knows_more(
    identity: NamedLinop, before: Sequence[NamedLinop], after: Sequence[NamedLinop]
) -> bool:
    """Whether an identity knows a length that the operators next to it do not."""
    sides = [zip(linop.oshape, linop.sizes("output"), strict=True) for linop in before[-1:]]
    following = [linop for linop in after if not is_identity(linop)][:1]
    sides += [zip(linop.ishape, linop.sizes("input"), strict=True) for linop in following]
    dims = {dim for pairs in sides for dim, size in pairs if size is not None}
    sizes_by_dim = zip(identity.ishape, identity.sizes("input"), strict=True)
    return any(size is not None and dim not in dims for dim, size in sizes_by_dim)


def is_unitary(linop: NamedLinop) -> bool:
    """Whether A^H A and A A^H are known to be identities; False without an adjoint."""
    with suppress(NotImplementedError):
        return acts_as(linop.N, Identity) and acts_as(linop.H.N, Identity)
    return False
