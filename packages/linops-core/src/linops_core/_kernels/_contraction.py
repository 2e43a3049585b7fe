"""A weight times an input, summed over dimensions, by the fastest way in torch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from string import ascii_letters
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._accumulate import writing_is_safe
from ._dtype import at_least_single, product_in_wide_dtype, summable

_REST = "."
"""Stands for the axes of a ``...``, which the weight does not have."""

_SMALL, _SMALL_ON_GPU = 2**14, 2**21
"""Elements of a temporary that is faster than a loop: a GPU waits for each step of one."""

_PRODUCT_OVER_COUNT = 64
"""Elements of a product, for each product, from which products are added one by one."""

_LONG, _LONG_ON_GPU = 2**14, 2**18
"""Terms of a sum, above which products in single precision lose digits: torch on a CPU adds the
rows of a transposed matrix one by one, so that 2^25 ones give 2^24."""


def letters_of(*shapes: Sequence[str]) -> list[str]:
    """Return shapes with one letter for each name, and a ``.`` for ``...``."""
    # In the given order, not that of a set: einsum sums in the order of letters, and results must
    # have the same bits on every run.
    names = dict.fromkeys(name for shape in shapes for name in shape if name != "...")
    letter = {**dict(zip(names, ascii_letters, strict=False)), "...": _REST}
    return ["".join(letter[str(name)] for name in shape) for shape in shapes]


class Axes(NamedTuple):
    """A permutation and new axes, to broadcast a tensor against another one."""

    order: tuple[int, ...] | None = None
    layout: tuple[slice | str | None, ...] | None = None
    n_named: int = 0

    def view(self, x: Tensor, ndim: int = 0) -> Tensor:
        """Return a view of x that broadcasts against a tensor of ``ndim`` axes."""
        if self.order is not None:
            front = x.ndim - len(self.order)
            x = x.permute(*range(front), *(front + axis for axis in self.order))
        if self.layout is None:
            return x
        index = list(self.layout)
        if _REST in index:
            at = index.index(_REST)
            index[at : at + 1] = [None] * (ndim - self.n_named)
        key: Any = (..., *index)  # no axes are left
        return x[key]


class Contraction:
    """A weight times an input, summed over some letters, as in :func:`torch.einsum`.

    Without a sum it is a product (coil maps times an image). A weight with one new axis and one
    axis to sum over is a matrix. If the input has all axes of the weight (the adjoint of coil
    maps), products are added one by one, in a third of the time of einsum and with the memory of
    one product.
    """

    def __init__(self, of_weight: str, of_x: str, result: str) -> None:
        self.letters = (of_weight, of_x, result)
        summed = [letter for letter in of_x if letter not in result]
        self.weight_axes = self.x_axes = Axes()
        self.kind = "any"
        if _REST in of_x[1:] or _REST in result[1:]:
            return
        if not summed:
            self.kind = "product"
            self.weight_axes, self.x_axes = axes_along(of_weight, result), axes_along(of_x, result)
            self.is_aligned = self.weight_axes[:2] == self.x_axes[:2] == (None, None)
        elif of_weight[1:] == of_x[-1:] and of_x[:-1] + of_weight[:1] == result:
            self.kind = "matrix"
        elif len(of_weight) == 2 and (of_weight[0], of_x[:-1] + of_weight[1]) == (of_x[-1], result):
            self.kind = "transposed matrix"
        elif len(summed) == 1 and len(of_weight) > 1 and set(of_weight) <= set(of_x):
            self.kind = "sum of products"
            self.axis = of_x.index(summed[0]) - len(of_x)
            self.weight_axes = axes_along(of_weight, of_x)
            self.x_axes = axes_along(of_x.replace(summed[0], ""), result)

    def __call__(self, weight: Tensor, x: Tensor) -> Tensor:
        """Return the sum; dtypes promote, and a real weight stays real for a complex x."""
        if self.kind == "product":
            if not x.ndim or not weight.ndim:  # tensors without axes do not count in promotion
                dtype = torch.promote_types(weight.dtype, x.dtype)
                weight, x = weight.to(dtype), x.to(dtype)
            if self.is_aligned:
                return product_in_wide_dtype(weight, x)
            return product_in_wide_dtype(self.weight_axes.view(weight), self.x_axes.view(x))
        if not (weight.is_floating_point() or weight.is_complex()):
            x = summable(x)  # integers are summed as int64
        if self.kind == "sum of products":
            few = self._few_products(weight, x)
            if few is not None:
                return few
        if writing_is_safe() and x.numel() > _LONG and x.dtype in (torch.float32, torch.complex64):
            first, *others = self._short_sums(weight, x)
            if others:
                total = self(*first)
                for pair in others:
                    total += self(*pair)
                return total
        if weight.dtype != x.dtype:
            if x.is_complex() and not weight.is_complex():
                return self._by_parts(weight, x)
            dtype = torch.promote_types(weight.dtype, x.dtype)
            weight, x = weight.to(dtype), x.to(dtype)
        if self.kind == "matrix":
            return torch.mv(weight, x) if x.ndim == 1 else x @ weight.mT
        if self.kind == "transposed matrix":
            return torch.mv(weight.mT, x) if x.ndim == 1 else x @ weight
        return torch.einsum(self._equation(), weight, x)

    def _short_sums(self, weight: Tensor, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return weight and input, cut along the longest axis of a sum of many terms."""
        of_weight, of_x, result = self.letters
        sizes = dict(zip(of_weight, weight.shape, strict=True))
        summed = {letter: sizes[letter] for letter in of_x if letter not in result}
        n_terms, most = prod(summed.values()), _LONG if x.is_cpu else _LONG_ON_GPU
        if n_terms <= most:
            return [(weight, x)]
        longest = max(summed, key=summed.__getitem__)
        n_at_once = max(1, sizes[longest] * most // n_terms)
        at = of_x.index(longest)
        axis = at - len(of_x) if _REST in of_x[:at] else at
        halves = weight.split(n_at_once, of_weight.index(longest)), x.split(n_at_once, axis)
        return [*zip(*halves, strict=True)]

    def _equation(self, part: str = "") -> str:
        of_weight, of_x, result = (side.replace(_REST, "...") for side in self.letters)
        return f"{of_weight},{of_x}{part}->{result}{part}"

    def _by_parts(self, weight: Tensor, x: Tensor) -> Tensor:
        """Return the sum for a real weight, with real and imaginary parts as a batch axis."""
        real = torch.promote_types(weight.dtype, x.real.dtype)
        parts = torch.view_as_real(x.resolve_conj()).to(real)
        y = torch.einsum(self._equation("Z"), weight.to(real), parts)
        return torch.view_as_complex(y.contiguous().view(y.shape))

    def _few_products(self, weight: Tensor, x: Tensor) -> Tensor | None:
        """Return the sum of few large products, or None if there are many small ones."""
        n_products, dtype = x.shape[self.axis], torch.promote_types(weight.dtype, x.dtype)
        weight = self.weight_axes.view(weight)
        if not writing_is_safe():  # nothing is asked of sizes, which a graph may not know
            return self.x_axes.view((weight * x).sum(self.axis))
        if n_products == 1:  # a sum would copy the product
            return self.x_axes.view(product_in_wide_dtype(weight, x).squeeze(self.axis))
        n_at_once = _at_once(x, n_products)
        if n_at_once == n_products:
            return self.x_axes.view((weight * x).sum(self.axis))
        if x.numel() < _PRODUCT_OVER_COUNT * n_products**2:
            return None
        if n_at_once == 1:
            weights, parts = weight.unbind(self.axis), x.unbind(self.axis)
            total = (weights[0] * parts[0]).to(at_least_single(dtype))
            for one, part in zip(weights[1:], parts[1:], strict=True):
                total.addcmul_(one, part)
        else:
            weights, parts = weight.split(n_at_once, self.axis), x.split(n_at_once, self.axis)
            total = (weights[0] * parts[0]).sum(self.axis, dtype=at_least_single(dtype))
            for some, part in zip(weights[1:], parts[1:], strict=True):
                total += (some * part).sum(self.axis)
        return self.x_axes.view(total.to(dtype))


def _at_once(x: Tensor, n_products: int) -> int:
    """Return of how many products to have a temporary: of all if they are small."""
    small = _SMALL if x.is_cpu else _SMALL_ON_GPU
    if x.numel() <= small:
        return n_products
    return 1 if x.is_cpu else max(1, small * n_products // x.numel())


def axes_along(source: str, target: str) -> Axes:
    """Return the axes for a tensor ``source`` to broadcast along ``target``, which has them all."""
    named = source.lstrip(_REST)
    order = [letter for letter in target if letter in named]
    permutation = None
    if order != [*named]:
        permutation = tuple(named.index(letter) for letter in order)
    index = [
        slice(None) if letter in named else letter if letter == _REST else None
        for letter in (target.lstrip(_REST) if source.startswith(_REST) else target)
    ]
    if not source.startswith(_REST):
        while index and not isinstance(index[0], slice):
            index.pop(0)  # leading axes are added by broadcasting
    is_new = any(not isinstance(item, slice) for item in index)
    return Axes(permutation, tuple(index) if is_new else None, len(target.replace(_REST, "")))


def aligned(x: Tensor, dims: Sequence[str], names: Sequence[str], ndim: int) -> Tensor:
    """Return a view of x, with these dims, that broadcasts against a tensor of ``ndim`` axes.

    ``names`` are those of the axes of that tensor, with ``...`` for any number of them.
    """
    return axes_along(*letters_of(dims, names)).view(x, ndim)
