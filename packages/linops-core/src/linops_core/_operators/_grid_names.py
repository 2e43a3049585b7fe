"""Names of the dimensions of an operator on a grid, which may be at any places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self, TypeAlias

from torch import Tensor

from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims, is_wildcard

from .._base._dimensions import unused_names

Dims: TypeAlias = Sequence[NamedDimension | str]


class GridNames(NamedTuple):
    """The grid of an operator among the dimensions of its input, and its names in the output.

    Examples
    --------
    >>> GridNames.along("FFT", ("Nx", "Ny"), ("C", "Nx", "Nz", "Ny"), ("Kx", "Ky")).shape()
    (C, Nx, Nz, Ny) -> (C, Kx, Nz, Ky), batch_shape=(C, Nz)
    """

    names: tuple[NamedDimension, ...]
    """All dimensions of the input, in order."""
    grid: tuple[NamedDimension, ...]
    """The dimensions that the operator acts on, in the order of its axes."""
    result: tuple[NamedDimension, ...]
    """Their names in the output."""
    is_free: bool = False
    """Whether ``shape`` was not given, so that a neighbour may determine it."""

    @classmethod
    def along(
        cls,
        owner: str,
        dims: Dims,
        shape: Dims | None = None,
        to: Dims | None = None,
        *,
        n_dims: int | None = None,
        default_to: Dims | None = None,
    ) -> Self:
        """Return the names for an operator along ``dims``.

        Parameters
        ----------
        owner : str
            Name of the operator, for messages.
        dims : sequence of dimensions
            Dimensions of the grid.
        shape : sequence of dimensions, optional
            All dimensions of the input, with ``dims`` at any places. ``("...", *dims)`` by default;
            in a composition, the dimensions that the neighbouring operator returns.
        to : sequence of dimensions, optional
            Names in the output. If there is one for each of ``dims``, it takes the place of that
            dimension. Otherwise all names are at the place of the first of ``dims``.
        n_dims : int, optional
            Number of dimensions of the grid; any number by default.
        default_to : sequence of dimensions, optional
            Default of ``to``, which must have as many names; ``dims`` by default.

        Raises
        ------
        ValueError
            If ``dims`` or ``to`` have a wrong number of dimensions or duplicates, ``dims`` are not
            named dimensions of the input, or ``to`` has the name of another dimension.
        """
        if isinstance(dims, int):
            raise TypeError(
                f"{owner}: dims must be the names of the dimensions that it acts on, as in "
                f'dims=("Nx", "Ny"), got {dims!r}'
            )
        grid = as_dims(dims)
        names = as_dims((ELLIPSES, *grid) if shape is None else shape)
        named = {dim for dim in names if not is_wildcard(dim)}
        if not grid or len({*grid} & named) < len(grid):
            raise ValueError(
                f"{owner}: dims must be different named dimensions of the input "
                f"({_text(names)}), got {grid}"
            )
        if n_dims not in (None, len(grid)):
            raise ValueError(f"{owner}: dims must be {n_dims} dimensions, got {grid}")
        default = as_dims(grid if default_to is None else default_to)
        result, n_result = default if to is None else as_dims(to), len(default)
        is_named = len({*result}) == len(result) and not any(map(is_wildcard, result))
        if len(result) != n_result or not is_named or {*result} & (named - {*grid}):
            raise ValueError(
                f"{owner}: to must name the {n_result} dimensions of the output that "
                f"({_text(grid)}) become, each with a name of its own, got {result} for an input "
                f"({_text(names)})"
            )
        return cls(names, grid, result, shape is None)

    @classmethod
    def given(
        cls,
        owner: str,
        dims: Dims | None,
        shape: Dims | None,
        to: Dims | None,
        *,
        n_dims: int | None = None,
        default_to: Dims | None = None,
        instead: Mapping[str, object],
    ) -> Self | None:
        """Return the names of :meth:`along`, or None if ``dims`` is None and the grid is last.

        Raises
        ------
        ValueError
            If ``dims`` is given together with an argument in ``instead``, or if ``shape`` or
            ``to`` is given without ``dims``.
        """
        if dims is not None:
            for argument, value in instead.items():
                if value is not None:
                    raise ValueError(
                        f"{owner}: {argument} must not come with dims=, got {value!r}; name all "
                        "dimensions of the input by shape= and those of the output by to="
                    )
            return cls.along(owner, dims, shape, to, n_dims=n_dims, default_to=default_to)
        for argument, names in {"shape": shape, "to": to}.items():
            if names is not None:
                raise ValueError(
                    f"{owner}: {argument}= must come with dims=, the dimensions that the operator "
                    f"acts on, got {names!r} alone"
                )
        return None

    @classmethod
    def of(
        cls,
        owner: str,
        placed: tuple[Dims | None, Dims | None, Dims | None],
        batch_shape: Dims | None,
        of_grid: tuple[str, Dims | None, Dims],
        of_result: tuple[str, Dims | None, Dims | None],
        why: str,
    ) -> Self:
        """Return the names of :meth:`along`, or those of a grid that is last.

        Parameters
        ----------
        placed : (dims, shape, to)
            The arguments of :meth:`along`.
        batch_shape : sequence of dimensions, optional
            The dimensions before a grid that is last.
        of_grid, of_result : (argument, names, default)
            The name of the argument for a grid that is last, in the input and in the output, the
            names that were given and the default. Without a default, the grid has the names of the
            input in the output, of a grid that is last the next ones.
        why : str
            What decides the numbers of dimensions, for messages.

        Raises
        ------
        ValueError
            As :meth:`given`, or if there is a wrong number of names.
        """
        instead = {"batch_shape": batch_shape, of_grid[0]: of_grid[1], of_result[0]: of_result[1]}
        names = cls.given(
            owner, *placed, n_dims=len(of_grid[2]), default_to=of_result[2], instead=instead
        )
        if names is not None:
            return names
        grid = checked_dims(owner, *of_grid, why)
        batch = as_dims((ELLIPSES,) if batch_shape is None else batch_shape)
        default = unused_names(grid, {*grid, *batch}) if of_result[2] is None else of_result[2]
        return cls.last(batch, grid, checked_dims(owner, *of_result[:2], default, why))

    @classmethod
    def last(cls, batch: Dims | None, grid: Dims, result: Dims) -> Self:
        """Return the names for a grid that is last on both sides, by default behind a ``...``."""
        ins, outs = as_dims(grid), as_dims(result)
        return cls((*as_dims((ELLIPSES,) if batch is None else batch), *ins), ins, outs)

    @property
    def batch(self) -> tuple[NamedDimension, ...]:
        """The dimensions that the operator does not act on."""
        return tuple([dim for dim in self.names if dim not in self.grid])

    @property
    def output(self) -> tuple[NamedDimension, ...]:
        """All dimensions of the output."""
        return names_with_replacement(self.names, self.grid, self.result)

    def shape(self, **others: Dims) -> NamedShape:
        """Return the shape of the operator."""
        return NamedShape(self.names, self.output, batch_shape=self.batch, **others)


def names_with_replacement(
    names: Sequence[NamedDimension],
    old: Sequence[NamedDimension],
    new: Sequence[NamedDimension],
) -> tuple[NamedDimension, ...]:
    """Return ``names`` with ``new`` in the place of ``old``.

    Equal numbers are replaced one by one. Otherwise all names take the place of the first one, or
    are last if there is none.
    """
    if len(old) == len(new):
        replacements = dict(zip(old, new, strict=True))
        return tuple([replacements.get(dim, dim) for dim in names])
    at = next((position for position, dim in enumerate(names) if dim in old), len(names))
    rest = [dim for dim in names[at:] if dim not in old]
    return (*names[:at], *new, *rest)


def checked_dims(
    owner: str, argument: str, dims: Dims | None, default: Dims, reason: str
) -> tuple[NamedDimension, ...]:
    """Return the given dimensions, or the default ones; check their number."""
    result = as_dims(default if dims is None else dims)
    if len(result) != len(default) or ELLIPSES in result:
        raise ValueError(
            f"{owner}: {argument} must have {len(default)} dimensions for {reason}, got {result}"
        )
    return result


def axes_of(dims: Sequence[NamedDimension], names: Sequence[NamedDimension]) -> tuple[int, ...]:
    """Return the axes of ``dims`` among ``names``; those behind a ``...`` count from the end.

    They stay the same whatever a ``...`` stands for.
    """
    positions = [names.index(dim) for dim in dims]
    return tuple([p if ELLIPSES in names[p:] else p - len(names) for p in positions])


def to_the_end(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return a view of ``x`` in which ``axes`` are the last ones, in this order."""
    last = tuple(range(-len(axes), 0))
    return x if axes == last else x.movedim(axes, last)


def from_the_end(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return a view of ``x`` in which its last axes are ``axes``, in this order."""
    last = tuple(range(-len(axes), 0))
    return x if axes == last else x.movedim(last, axes)


def _text(dims: Sequence[NamedDimension]) -> str:
    return ", ".join(map(str, dims))
