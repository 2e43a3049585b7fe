"""Several operators of one input as one, whose output is one flat vector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias, TypeVar, cast

import torch
from torch import Tensor, nn

from linops_core import NamedLinop
from linops_core.siblings import check_vector, real_part, totals_of
from nameddim import ELLIPSES

from ._checks import Operator, check_callable, is_complex_linear, sizes_differ
from ._space import Space, common_input, spaces_of

Item = TypeVar("Item")

Operators: TypeAlias = Operator | Sequence[Operator]
"""One operator, or a sequence of operators."""
Vectors: TypeAlias = Tensor | Sequence[Tensor]


class StackedOperators(nn.Module):
    """Operators with one input, as one. It is a module, so that their weights are found."""

    def __init__(
        self, owner: str, name: str, operators: Sequence[Operator], adjoints: Operators | None
    ) -> None:
        super().__init__()
        self.owner, self.name = owner, name
        if not operators:
            raise ValueError(f"{owner}: {name} must hold at least one operator, got none")
        for number, A in enumerate(operators):
            check_callable(owner, f"{name}[{number}]", A)
            if isinstance(A, nn.Module):
                self.add_module(str(number), A)
        self.operators = list(operators)
        self._check_inputs()
        self.linops: list[NamedLinop] | None = None
        self.shapes: list[torch.Size] | None = None
        """Of what each returns, once that is known."""
        self.are_real = [False] * len(operators)
        """Whether to take the real part of each block, which was joined beside a complex one."""
        self.units = [1.0] * len(operators)
        """The outputs are multiplied by these numbers."""
        if adjoints is None:
            linops = [A for A in operators if isinstance(A, NamedLinop)]
            if len(linops) < len(operators):
                raise TypeError(
                    f"{owner}: the adjoints of functions must be given as a sequence, got "
                    f"{name} = {[*operators]} alone"
                )
            self.adjoints: list[Operator] = [A.H for A in linops]
            self.linops = linops
        elif not isinstance(adjoints, (list, tuple)) or len(adjoints) != len(operators):
            raise TypeError(
                f"{owner}: the adjoints must be a sequence, one for each of {len(operators)} "
                f"operators, got {adjoints!r}"
            )
        else:
            self.adjoints = list(adjoints)

    def _check_inputs(self) -> None:
        """Raise an error if operators are known to have different inputs."""
        linops = [(n, A) for n, A in enumerate(self.operators) if isinstance(A, NamedLinop)]
        if any(totals_of(A, "input") is not None for _, A in linops):
            return  # the sizes are those of shares, which the ranks compare when they exchange
        inputs = [(n, A.sizes("input")) for n, A in linops if ELLIPSES not in A.ishape]
        for number, sizes in inputs[1:]:
            first, lengths = inputs[0]
            if sizes_differ(sizes, lengths):
                raise ValueError(
                    f"{self.owner}: the operators in {self.name} must have the same input, got "
                    f"sizes {lengths} of {self.name}[{first}] and {sizes} of {self.name}[{number}]"
                )

    @property
    def is_complex_linear(self) -> bool:
        """Whether all of them are linear over the complex numbers."""
        return all([is_complex_linear(A) for A in self.operators])

    def spaces(self, input_space: Space | None = None) -> tuple[Space, Space]:
        """Return the space of the input and the space of the joined output."""
        shared = common_input(self.owner, self.operators) if input_space is None else input_space
        blocks = tuple(spaces_of(self.owner, A, shared)[1] for A in self.operators)
        return shared, Space(blocks=blocks, split=self.split)

    def forward(self, x: Tensor) -> Tensor:
        """Return all outputs, joined."""
        return self.in_units([A(x) for A in self.operators])

    def in_units(self, images: Sequence[Tensor], power: int = 1) -> Tensor:
        """Return the outputs in their units, joined."""
        pairs = zip(images, self.units, strict=True)
        return self.joined([image if u == 1 else image * u**power for image, u in pairs])

    def adjoint(self, y: Tensor) -> Tensor:
        """Return the sum of the adjoints."""
        parts = zip(self.adjoints, self.split(y), self.units, strict=True)
        images = [back(part if u == 1 else part * u) for back, part, u in parts]
        return self._sum(images, "the adjoint")

    def normal(self, x: Tensor) -> Tensor:
        """Return the sum of the normals, in closed form where there is one."""
        if self.linops is None or set(self.units) != {1.0}:
            return self.adjoint(self.forward(x))
        return self._sum([A.N(x) for A in self.linops], "the normal")

    def _sum(self, images: Sequence[Tensor], what: str) -> Tensor:
        for number, image in enumerate(images):
            if image.shape != images[0].shape:
                raise ValueError(
                    f"{self.owner}: the operators in {self.name} must have the same input, got "
                    f"shape {tuple(images[0].shape)} from {what} of {self.name}[0] and "
                    f"{tuple(image.shape)} from {what} of {self.name}[{number}]"
                )
        return reduce(torch.add, images)

    def joined(self, images: Sequence[Tensor]) -> Tensor:
        """Return the outputs joined to one vector, and remember their shapes."""
        shapes = [image.shape for image in images]
        if self.shapes is not None and shapes != self.shapes:
            number = [a == b for a, b in zip(shapes, self.shapes, strict=True)].index(False)
            raise ValueError(
                f"{self.owner}: the output of {self.name}[{number}] must have shape "
                f"{tuple(self.shapes[number])}, got {tuple(shapes[number])}"
            )
        self.shapes = shapes
        return torch.cat([image.flatten() for image in images])

    def split(self, y: Tensor) -> list[Tensor]:
        """Return the output of each, as views of one vector."""
        assert self.shapes is not None  # known from the first output, or from right-hand sides
        parts = zip(
            y.split([s.numel() for s in self.shapes]), self.shapes, self.are_real, strict=True
        )
        return [(real_part(z) if is_real else z).reshape(s) for z, s, is_real in parts]


def stacked_operator(
    owner: str, name: str, A: Operators, adjoint: Operators | None
) -> tuple[Operator, Operator | None]:
    """Return one operator, and its adjoint if that is given or there were several."""
    if isinstance(A, (list, tuple)):
        both = StackedOperators(owner, name, A, adjoint)
        return both, both.adjoint
    if isinstance(adjoint, (list, tuple)):
        raise TypeError(
            f"{owner}: the adjoint of one operator must be one function, got {adjoint!r}"
        )
    return A, adjoint  # type: ignore[return-value]


def one_vector(owner: str, name: str, y: Vectors, A: Operator) -> Tensor:
    """Return an output of A as one vector: a sequence where A is several operators."""
    if not isinstance(A, StackedOperators):
        return cast(Tensor, y)  # check_vector refuses a sequence
    parts = one_per_operator(owner, name, y, A, "tensor")
    for number, part in enumerate(parts):
        check_vector(owner, f"{name}[{number}]", part)
    return A.joined(parts)


def one_per_operator(
    owner: str, name: str, given: Item | Sequence[Item], A: StackedOperators, kind: str
) -> Sequence[Item]:
    """Return the sequence; raise an error unless it has one entry for each operator."""
    if not isinstance(given, (list, tuple)) or len(given) != len(A.operators):
        got = f"{len(given)} of them" if isinstance(given, (list, tuple)) else f"{type(given)}"
        raise TypeError(
            f"{owner}: {name} must be a sequence, one {kind} for each of {len(A.operators)} "
            f"operators in {A.name}, got {got}"
        )
    return given
