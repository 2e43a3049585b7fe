"""Shared by the functions of coil data: axes by name, and the Gram matrix of the coils."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import is_dense, not_a_tensor
from nameddim import NamedDimension, as_dims

Name: TypeAlias = NamedDimension | str

PIECE = 2**18
"""Numbers in a workspace, about; it fits the cache of a core."""


def axes_of(owner: str, x: Tensor, dims: Sequence[Name], **wanted: Sequence[Name]) -> list[int]:
    """Return the axes of x that have the wanted names, in the order of ``wanted``.

    ``dims`` names each axis of x, and ``...`` stands for any number of axes. The keys of ``wanted``
    are arguments of ``owner``, for the messages.
    """
    if not is_dense(x) or x.dtype not in (torch.complex64, torch.complex128):
        raise not_a_tensor(owner, "the data", x, "a tensor of complex64 or complex128")
    given = (*map(str, as_dims(dims)),)
    names = [*given]
    if len({*names}) < len(names):
        raise ValueError(f"{owner}: dims must be different names, got {given}")
    if "..." in names:
        at = names.index("...")
        names[at : at + 1] = [""] * (x.ndim - len(names) + 1)
    if len(names) != x.ndim:
        raise ValueError(
            f"{owner}: dims must name the {x.ndim} axes of the data, got {given} for shape "
            f"{tuple(x.shape)}; '...' stands for any number of axes"
        )
    axes = []
    for argument, axis in wanted.items():
        for name in map(str, as_dims(axis)):
            if name not in names:
                raise ValueError(f"{owner}: {argument} must be in dims {given}, got {name!r}")
            axes.append(names.index(name))
    if len({*axes}) < len(axes):
        raise ValueError(f"{owner}: the dimensions of {' and '.join(wanted)} must be different")
    if not x.numel():
        raise ValueError(f"{owner}: the data must not be empty, got shape {tuple(x.shape)}")
    return axes


def axes_of_images(
    owner: str,
    x: Tensor,
    coil_dim: Name,
    grid_dims: Sequence[Name],
    dims: Sequence[Name] | None,
) -> list[int]:
    """Return the axis of the coils and the axes of the grid; by default, x has no other axes."""
    grid = as_dims(grid_dims)
    if len(grid) not in (2, 3):
        raise ValueError(f"{owner}: grid_dims must be 2 or 3 dimensions, got {grid}")
    given = (coil_dim, *grid) if dims is None else dims
    axes = axes_of(owner, x, given, coil_dim=(coil_dim,), grid_dims=grid)
    if dims is None:
        _check_coils_are_first(owner, x, (*map(str, given),))
    return axes


def coil_axis(owner: str, x: Tensor, coil_dim: Name, dims: Sequence[Name] | None) -> int:
    """Return the axis of the coils; by default the first one."""
    (axis,) = axes_of(owner, x, (coil_dim, "...") if dims is None else dims, coil_dim=(coil_dim,))
    if dims is None:
        _check_coils_are_first(owner, x, (str(coil_dim), "..."))
    return axis


def _check_coils_are_first(owner: str, x: Tensor, dims: Sequence[str]) -> None:
    """Refuse data whose shape shows that the first axis is not the coils.

    Its length is that of the axes of a grid, at least half of the longest one or more than 64, and
    another axis is shorter, at most half of the longest one: that one may be the coils. The
    calibration region of many coils, and slabs, are not of this kind. Of two axes, the coils must
    not be the longer one.

    Warn if the first of three axes has length 48 to 64, which is rarely the number of coils and
    often that of lines, and the last one at most half of that. Of four axes it may be a slab.
    """
    n_coils, *others = x.shape
    longest, shortest = max(others, default=n_coils), min(others, default=n_coils)
    is_grid = 2 * n_coils >= longest or n_coils > 64
    coil, *rest = dims
    message = (
        f"{owner}: the first axis must be the coils {coil!r} if dims is not given, got shape "
        f"{tuple(x.shape)}, where it is longer than another axis; name the axes by dims=, "
        f"{(*rest, coil)} if the coils are last and {(*dims,)} if they are first"
    )
    if n_coils > shortest and (len(others) == 1 or (is_grid and longest >= 2 * shortest)):
        raise ValueError(message)
    if x.ndim == 3 and 48 <= n_coils <= 64 and x.shape[-1] * 2 <= n_coils:
        warnings.warn(message, stacklevel=5)  # past the caller, `owner` and no_grad


class NoAnswer(ValueError):
    """Data that have no coil maps; :func:`each_element` catches it."""


def each_element(owner: str, shape: torch.Size, write: Callable[[tuple[int, ...]], None]) -> None:
    """Call ``write`` with each index of a batch, and warn of the elements without an answer.

    If no element has one, the error of the first is raised.
    """
    refused: dict[tuple[int, ...], NoAnswer] = {}
    for at in product(*map(range, shape)):
        try:
            write(at)
        except NoAnswer as error:
            refused[at] = error
    if not refused:
        return
    first = next(iter(refused.values()))
    if len(refused) == shape.numel():
        raise ValueError(*first.args)  # of a class that users know
    some = ", ".join(map(str, [*refused][:5])) + (" and others" if len(refused) > 5 else "")
    warnings.warn(
        f"{owner}: {len(refused)} of {shape.numel()} elements of the batch have no maps, got zeros "
        f"at {some}: {first}",
        stacklevel=4,  # past `owner` and no_grad
    )


def coil_gram(owner: str, x: Tensor, error: type[ValueError] = ValueError) -> Tensor:
    """Return sum_j x_aj conj(x_bj) of data (C, ...), (C, C), in complex128 against overflow.

    ``error`` is what is raised of data that are not finite.
    """
    gram = torch.zeros(len(x), len(x), dtype=torch.complex128, device=x.device)
    for piece in _pieces(x):
        rows = piece.reshape(len(x), -1).to(torch.complex128)
        gram.addmm_(rows, rows.mH)
    if not gram.isfinite().all():
        raise error(f"{owner}: the data must be finite, got NaN or infinity")
    return gram


def _pieces(x: Tensor) -> Iterator[Tensor]:
    """Yield small views of x (C, ...) that cover it."""
    if x.numel() <= max(PIECE, len(x)):
        yield x
    else:
        axis = next(axis for axis in range(1, x.ndim) if x.shape[axis] > 1)
        for half in x.tensor_split(2, axis):
            yield from _pieces(half)


def principal_component(gram: Tensor) -> Tensor:
    """Return the eigenvector (C,) of the largest eigenvalue; its largest entry is positive."""
    vector = torch.linalg.eigh(gram).eigenvectors[:, -1]
    turned: Tensor = vector * vector[vector.abs().argmax()].conj().sgn()
    return turned


def eigenvectors(matrices: Tensor, n: int, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Return the n largest eigenvalues (P, n) of Hermitian matrices (P, C, C), and eigenvectors.

    Only the lower triangles are read. The vectors (P, C, n) have norm 1, and their inner products
    with ``reference`` (C,) are real and not negative.
    """
    values, vectors = torch.linalg.eigh(matrices)
    values, vectors = values[:, -n:].flip(1), vectors[..., -n:].flip(2)
    phases = (reference.conj() @ vectors).conj()
    phases = torch.where(phases == 0, 1, phases.sgn())
    return values, vectors * phases.unsqueeze(1)
