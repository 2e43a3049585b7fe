"""The dimensions of an operator: their names, sides, lengths and roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from nameddim import ELLIPSES, ND, NamedDimension, NamedShape, is_wildcard

from ._module import OperatorModule
from ._roles import Role, membership

Side: TypeAlias = Literal["input", "output"]
"""A side of an operator."""
SIDES: tuple[Side, Side] = ("input", "output")


class DimensionedModule(OperatorModule):
    """A module between tensors whose dimensions have names."""

    def __init__(self, shape: NamedShape, name: str | None = None) -> None:
        """Make the operator; the text of the class says what its parameters are."""
        super().__init__(name)
        if not isinstance(shape, NamedShape):
            raise TypeError(f"{type(self).__name__}: shape must be a NamedShape, got {shape!r}")
        self._shape = shape
        self._is_endomorphism = False

    @property
    def shape(self) -> NamedShape:
        """Names of the dimensions; replaced, never edited."""
        return self._shape

    @property
    def ishape(self) -> tuple[NamedDimension, ...]:
        """Names of the input's dimensions."""
        return self._shape.ishape

    @property
    def oshape(self) -> tuple[NamedDimension, ...]:
        """Names of the output's dimensions."""
        return self._shape.oshape

    @property
    def dims(self) -> frozenset[NamedDimension]:
        """All named dimensions: of input, output, weights and parts."""
        return self._shape.dims

    @property
    def signature(self) -> str:
        """The name and the names of both sides, for messages."""
        ishape, oshape = (", ".join(map(str, names)) for names in (self.ishape, self.oshape))
        return f"{self.name} ({ishape}) -> ({oshape})"

    @property
    def is_endomorphism(self) -> bool:
        """Whether the operator maps a space to itself; the output may have other names.

        For example, the normal operator (N) -> (N1) of a sum over N maps a space to itself: N1 is
        another name of N, with which the output can be sliced separately.
        """
        if self._is_endomorphism or self.ishape != self.oshape:
            return self._is_endomorphism
        # Names do not show it: a crop may keep the names of its input.
        sizes = zip(self.sizes("input"), self.sizes("output"), strict=True)
        return all(None in pair or pair[0] == pair[1] for pair in sizes)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, or None if the operator accepts any length.

        If input and output have different dimensions of that name, it is the length in the input;
        :meth:`sizes` has both. Operators are renamed (by A.N), so a class that overrides this must
        find ``dim`` by its position in ``self.ishape``, ``self.oshape`` or
        ``self.shape.other_shapes``.
        """
        return None

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the length of each dimension of one side, None where any length is accepted.

        Override it if input and output may have different dimensions of the same name.

        Parameters
        ----------
        side : {"input", "output"}

        Examples
        --------
        >>> from linops_core import PadLast
        >>> A = PadLast([5], [2], ("Nx",), ("Nx",), ())
        >>> A.sizes("input"), A.sizes("output")
        ((2,), (5,))
        """
        names = dims_of(self._shape, side)
        return tuple([None if dim == ELLIPSES else self.size(dim) for dim in names])

    def linked_positions(self) -> Sequence[tuple[int, int]]:
        """Return the pairs of positions in input and output that are the same dimension."""
        at_input = {
            occurrence: position for position, occurrence in enumerate(occurrences(self.ishape))
        }
        return [
            (at_input[occurrence], position)
            for position, occurrence in enumerate(occurrences(self.oshape))
            if occurrence in at_input and self.why_opaque(occurrence[0]) is None
        ]

    @property
    def input_devices(self) -> tuple[torch.device, ...]:
        """Devices of the weights, on which the input must be; empty if any device is accepted.

        Vectors that are made for the operator, as by `to_dense`, are on the first of them.
        """
        tensors = (*self.parameters(), *self.buffers())
        return tuple(dict.fromkeys(tensor.device for tensor in tensors))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return the reason why ``dim`` cannot be sliced here, or None when it can."""
        raise NotImplementedError

    def role(self, dim: NamedDimension | str) -> Role | None:
        """Return how ``dim`` behaves here, or None if the operator does not have it."""
        dim = ND.infer(dim)
        if dim not in self.dims:
            return None
        if self.why_opaque(dim) is not None:
            return Role.OPAQUE
        return membership(self.shape, dim)

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return the slice of ``dim`` outside of which the operator neither reads nor writes.

        The operator equals ``A.split(A, {dim: A.support(dim)})`` with zeros around it. So a tile
        needs only its support, which includes the halo. The supports of several dimensions hold at
        the same time.

        Returns
        -------
        slice or None
            With both ends. It is empty if the operator is known to be zero; then do not split along
            it. None if it is the whole dimension or not known, or if ``dim`` cannot be sliced.

        Examples
        --------
        >>> from linops_core import PadLast
        >>> PadLast([6], [2]).support("Nx1")
        slice(2, 4, None)
        """
        return None

    def _check_vector(self, x: object, side: Side) -> None:
        """Check that x is a tensor with the dimensions and the known sizes of a side."""
        check_sizes(self, x, side, self.sizes(side))


def size_of_side(linop: DimensionedModule, dim: NamedDimension | str) -> int | None:
    """Return the length of ``dim`` from ``sizes``, in the input or else in the output."""
    for side in SIDES:
        names = dims_of(linop.shape, side)
        if dim in names:
            return linop.sizes(side)[names.index(dim)]
    return None


def may_be_cut(linop: DimensionedModule, dim: NamedDimension | str) -> bool:
    """Whether an operator has ``dim`` and it can be sliced."""
    return linop.role(dim) not in (None, Role.OPAQUE)


def check_sizes(
    linop: DimensionedModule, x: object, side: Side, sizes: Sequence[int | None]
) -> None:
    """Check that x is a tensor with the dimensions and the given sizes of a side."""
    if not isinstance(x, Tensor):
        is_operator = isinstance(x, DimensionedModule)
        advice = (
            "compose operators with A @ B" if is_operator else "make it one: torch.as_tensor(x)"
        )
        raise TypeError(f"{linop.name}: the {side} must be a torch.Tensor, got {type(x)}; {advice}")
    names = dims_of(linop.shape, side)
    any_run = ELLIPSES in names
    if (x.ndim < len(names) - 1) if any_run else (x.ndim != len(names)):
        raise ValueError(
            f"{linop.name}: the {side} must have {'at least ' * any_run}"
            f"{len(names) - any_run} dimensions for {linop.shape}, "
            f"got shape {tuple(x.shape)}"
        )
    for position, (dim, size) in enumerate(zip(names, sizes, strict=True)):
        if size is not None and (length := x.shape[axis_of(position, names)]) != size:
            raise ValueError(
                f"{linop.name}: {dim} must have size {size}, got {length} "
                f"in an {side} of shape {tuple(x.shape)} for {linop.shape}"
            )


def check_inner(linop: DimensionedModule, inner: object) -> None:
    """Raise an error unless the inner part of a normal operator is an operator."""
    if not isinstance(inner, DimensionedModule):
        advice = "; to apply the normal operator, call A.N(x)" if isinstance(inner, Tensor) else ""
        raise TypeError(
            f"{linop.signature}: the inner operator of a normal must be a NamedLinop, got "
            f"{type(inner)}{advice}"
        )


def is_renamed_by(linop: DimensionedModule, names: Mapping[NamedDimension, NamedDimension]) -> bool:
    """Whether a mapping renames dimensions of the operator; an error if it is no mapping."""
    if not isinstance(names, Mapping):
        raise TypeError(
            f"{linop.signature}: names must be a mapping of old names to new ones, as in "
            f'A.renamed({{"N": "K"}}), got {names!r}'
        )
    return bool(linop.dims & names.keys())


def dims_of(shape: NamedShape, side: Side) -> tuple[NamedDimension, ...]:
    """Return the names of that side."""
    return shape.ishape if side == "input" else shape.oshape


def named_axes(names: tuple[NamedDimension, ...]) -> list[tuple[int, NamedDimension]]:
    """Return (axis, dimension) for all but ``...``; axes behind it count from the end."""
    return [
        (axis_of(position, names), dim) for position, dim in enumerate(names) if dim != ELLIPSES
    ]


def axis_of(position: int, names: tuple[NamedDimension, ...]) -> int:
    """Return the axis of the dimension at ``position``, negative behind a ``...``."""
    return position - len(names) * (ELLIPSES in names[:position])


def occurrences(names: tuple[NamedDimension, ...]) -> list[tuple[NamedDimension, int]]:
    """Return each name with its count so far, because ``()`` may occur several times."""
    return [(dim, names[:position].count(dim)) for position, dim in enumerate(names)]


def lengths_by_occurrence(
    names: tuple[NamedDimension, ...], shape: Sequence[int]
) -> dict[tuple[NamedDimension, int], list[int]]:
    """Return the lengths of a tensor by :func:`occurrences`; of a ``...`` it may be several."""
    result, lengths, n_run = {}, [*shape], len(shape) - len(names) + 1
    for occurrence in occurrences(names):
        count = n_run if occurrence[0] == ELLIPSES else 1
        result[occurrence], lengths = lengths[:count], lengths[count:]
    return result


def with_dims_in_front(shape: NamedShape, ishape: tuple[NamedDimension, ...]) -> NamedShape | None:
    """Return ``shape`` with further dimensions in front of both sides, so that the input fits.

    None if ``ishape`` does not end with ``shape.ishape``, or ``shape`` has further dimensions in
    front already.
    """
    n_more = len(ishape) - len(shape.ishape)
    if n_more < 1 or ELLIPSES in shape.ishape or ishape[n_more:] != shape.ishape:
        return None
    front = ishape[:n_more]
    others = dict(shape.other_shapes)
    if {*front} & {*shape.ishape, *shape.oshape}.union(*others.values()):
        return None
    if "batch_shape" in others:
        others["batch_shape"] = (*front, *others["batch_shape"])
    return NamedShape((*front, *shape.ishape), (*front, *shape.oshape), **others)


def is_part_of(
    pattern: tuple[NamedDimension, ...], dims: tuple[NamedDimension, ...], in_order: bool = True
) -> bool:
    """Whether ``dims`` contains ``pattern``, in order; a ``...`` is any number of dimensions."""
    names = [dim for dim in pattern if dim != ELLIPSES]
    if any(map(is_wildcard, names)) or len(names) == len(pattern) == len(dims):
        return False
    among = iter(dims) if in_order else dims
    return all(dim in among for dim in names)


def unused_names(
    dims: Iterable[NamedDimension], used: Iterable[NamedDimension]
) -> tuple[NamedDimension, ...]:
    """Return the next name of each dimension that is neither used nor returned for another one."""
    names, taken = list[NamedDimension](), set(used)
    for dim in dims:
        names.append(dim.next_unused(taken))
        taken.add(names[-1])
    return tuple(names)
