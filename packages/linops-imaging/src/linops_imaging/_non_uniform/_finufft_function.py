"""The transform by plans as a function of images and locations, for torch.

Shapes: B images, F frames, P locations of a frame, D axes of an image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import FakeTensor, becomes_a_graph, can_read_values, is_recorded

from ._finufft_plan import PlanPair, fastest_plan_precision
from ._kept_by_content import KeptByContent, Key

Compute: TypeAlias = Callable[[Tensor, Tensor, bool], Tensor]
"""Maps images (B, F, N...) to values (B, F, P) at locations (F, P, D), or back if it is True."""

Keep: TypeAlias = Callable[[Tensor, Key, Callable[[], PlanPair]], PlanPair]
"""Returns the plans for the locations (P, D) of a frame and a key, made by the function if new."""

PLANS = KeptByContent[PlanPair]()
"""Plans of compiled and exported graphs."""


def transform_of_plain_tensors(
    x: Tensor,
    locs: Tensor,
    is_back: bool,
    sizes: Sequence[int],
    tol: float,
    keep: Keep,
) -> Tensor:
    """Return the transform of plain tensors; see ``Compute``."""
    shape_of_y = tuple(sizes) if is_back else locs.shape[1:2]
    result = x.new_empty(*x.shape[:2], *shape_of_y)
    if not result.numel() or not x.numel() or x.is_meta:
        return result.zero_()
    # Threads share the images of a call.
    n = 1 if x.is_cpu and torch.get_num_threads() == 1 else len(x)
    is_gpu = x.is_cuda and not isinstance(x, FakeTensor)
    runs_on = torch.cuda.current_stream(x.device) if is_gpu else torch.get_num_threads()
    way = fastest_plan_precision(tol, tuple(sizes), x.dtype)
    for frame, of_frame in enumerate(locs):
        make = partial(PlanPair, of_frame, sizes, n, way)
        pair = keep(of_frame, (*sizes, n, way, runs_on), make)
        pair.apply(x[:, frame], result[:, frame], is_back=is_back)
    return result.mul_(1 / math.sqrt(math.prod(sizes)))


def differentiable_transform(
    x: Tensor, locs: Tensor, is_back: bool, sizes: Sequence[int], tol: float, compute: Compute
) -> Tensor:
    """Return the transform with derivatives of any order; see ``Compute``.

    A compiler finds one opaque operation.
    """
    if becomes_a_graph():
        y: Tensor = non_uniform_transform(x, locs, is_back, sizes, tol)
    elif can_read_values(x, locs) and not is_recorded(x, locs):
        y = compute(x, locs, is_back)  # the function takes a quarter of a millisecond
    else:
        y = _Transform.apply(x, locs, is_back, tuple(sizes), compute)  # type: ignore[no-untyped-call]
    return y


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, locs, *ctx.others = inputs
    # Torch detects writes to them.
    ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, locs)


def _backward_by(apply: Callable[..., Tensor], ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    is_back, sizes, how = ctx.others

    def other(x: Tensor, locs: Tensor, is_back: bool) -> Tensor:
        return apply(x, locs, is_back, sizes, how)

    return *_gradients(ctx, grad, is_back, sizes, other), None, None, None


class _Transform(torch.autograd.Function):
    @staticmethod
    def forward(
        x: Tensor, locs: Tensor, is_back: bool, sizes: Sequence[int], compute: Compute
    ) -> Tensor:
        return compute(x, locs, is_back)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _setup(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _backward_by(_Transform.apply, ctx, grad)

    @staticmethod
    def jvp(ctx: Any, of_x: Tensor | None, of_locs: Tensor | None, *_: None) -> Tensor:
        (x, locs), (is_back, sizes, compute) = ctx.saved_tensors, ctx.others

        def of(x: Tensor) -> Tensor:
            y: Tensor = _Transform.apply(x, locs, is_back, sizes, compute)  # type: ignore[no-untyped-call]
            return y

        terms = [] if of_x is None else [of(of_x)]
        if of_locs is not None:
            for axis, change in enumerate(of_locs.unbind(-1)):
                if is_back:
                    terms.append(of(x * change).mul(_coordinates(x, sizes, axis).conj()))
                else:
                    terms.append(of(x * _coordinates(x, sizes, axis)) * change)
        return sum(terms[1:], terms[0])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        return _mapped(_Transform.apply, info, in_dims, *inputs)


def _mapped(
    apply: Callable[..., Tensor],
    info: Any,
    in_dims: tuple[int | None, ...],
    x: Tensor,
    locs: Tensor,
    *others: Any,
) -> tuple[Tensor, int]:
    """Return a batch of transforms in one call of ``apply``."""
    of_x, of_locs, n = in_dims[0], in_dims[1], info.batch_size
    if of_locs is None:
        assert of_x is not None
        batch = x.movedim(of_x, 0)
        y = apply(batch.flatten(0, 1), locs, *others)
        return y.unflatten(0, batch.shape[:2]), 0
    # Each has its own locations, like a frame.
    frames = locs.movedim(of_locs, 0)
    n_frames = frames.shape[1]
    x = x.unsqueeze(1).expand(-1, n, *x.shape[1:]) if of_x is None else x.movedim(of_x, 1)
    y = apply(x.flatten(1, 2), frames.flatten(0, 1), *others)
    return y.unflatten(1, (n, n_frames)), 1


def _gradients(
    ctx: Any, grad: Tensor, is_back: bool, sizes: Sequence[int], compute: Compute
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients to x and to the locations.

    The derivative of a value to a coordinate of its location is the value of the image times
    that coordinate of the pixels, up to a factor.
    """
    x, locs = ctx.saved_tensors
    of_x = compute(grad, locs, not is_back) if ctx.needs_input_grad[0] else None
    if not ctx.needs_input_grad[1]:
        return of_x, None
    image, values = (grad, x) if is_back else (x, grad)
    of_axes = [
        (compute(image * _coordinates(image, sizes, axis), locs, False) * values.conj()).real.sum(0)
        for axis in range(len(sizes))
    ]
    return of_x, torch.stack(of_axes, -1).to(locs.dtype)


def _coordinates(like: Tensor, sizes: Sequence[int], axis: int) -> Tensor:
    """Return -2 pi i times the coordinates of pixels along an axis, in fields of view."""
    n, real = sizes[axis], like.dtype.to_real()
    turns = (torch.arange(n, dtype=real, device=like.device) - n // 2) / n
    return (-2j * math.pi * turns).reshape(-1, *[1] * (len(sizes) - 1 - axis))


# It makes plans and compares locations on the host, which a CUDA graph would not repeat.
@torch.library.custom_op(
    "linops_imaging::non_uniform_transform",
    mutates_args=(),
    tags=torch.Tag.cudagraph_unsafe,
)
def non_uniform_transform(
    x: Tensor, locs: Tensor, is_back: bool, sizes: Sequence[int], tol: float
) -> Tensor:
    """Return the transform as one operation of compiled and exported graphs; see ``Compute``."""
    return transform_of_plain_tensors(x, locs, is_back, sizes, tol, PLANS.get_or_make)


@non_uniform_transform.register_fake
def _(x: Tensor, locs: Tensor, is_back: bool, sizes: Sequence[int], tol: float) -> Tensor:
    return x.new_empty(*x.shape[:2], *(sizes if is_back else locs.shape[1:2]))


non_uniform_transform.register_autograd(
    partial(_backward_by, non_uniform_transform), setup_context=_setup
)
non_uniform_transform.register_vmap(partial(_mapped, non_uniform_transform))
