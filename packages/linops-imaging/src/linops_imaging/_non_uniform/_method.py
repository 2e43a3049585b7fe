"""What a method of a NUFFT is: whether it can run here, and how it is built."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from torch import Tensor

from linops_core import GridNames, Interpolate, NamedLinop
from nameddim import NamedDimension

from ._kaiser_bessel import Gridding
from ._toeplitz import Phases


class NufftRequest(NamedTuple):
    """A NUFFT that a method is to build."""

    locs: Tensor
    sizes: tuple[int, ...]
    tol: float
    """The largest error of an entry that is allowed; with ``gridding``, the one that it has."""
    gridding: Gridding | None
    """The grid and the kernel that ``oversamp`` and ``width`` give."""
    points: tuple[NamedDimension, ...]
    """Dimensions of frames, then of points."""
    names: GridNames
    """From the image to the oversampled grid that a method may have inside."""
    table_budget: int | None = 0
    is_for_coils: bool = False
    """Whether several images share the locations."""
    is_named_by_user: bool = True
    """Whether the user named the method; otherwise there are others."""


class Method(ABC):
    """A way to compute a NUFFT: by a library, or by operators of linops-core."""

    name: ClassVar[str]

    chooses_grid: ClassVar[bool] = False
    """Whether it chooses its grid by ``tol``, and takes neither ``oversamp`` nor ``width``."""

    cuts_batches: ClassVar[bool] = False
    """Whether its operator itself cuts a large batch into images; otherwise NUFFT cuts it."""

    def rank(self, request: NufftRequest) -> int:
        """Return its place in the order in which ``method="auto"`` tries the methods."""
        return 1

    @abstractmethod
    def make(self, request: NufftRequest) -> NamedLinop | None:
        """Return the operator, in which an Interpolate has the locations.

        If it cannot run here, raise an error if it ``is_named_by_user``, and return None otherwise.
        """

    def adjoint(self, request: NufftRequest) -> Callable[[Phases], Tensor] | None:
        """Return the adjoint for kernels of ToeplitzNormal, or None if others compute these.

        It maps :class:`Phases` of the locations to images (B, N...).
        """
        return None

    def needs_double(self, request: NufftRequest) -> bool:
        """Return whether its operator must get data in double precision to keep ``tol``."""
        return False

    def note(self, interpolate: Interpolate) -> str:
        """Return what ``repr`` says of an operator with this Interpolate."""
        return self.name


def interpolate_of(linop: NamedLinop) -> Interpolate:
    """Return the factor that has the locations."""
    return next(factor for factor in linop.flatten() if isinstance(factor, Interpolate))
