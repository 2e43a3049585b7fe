"""The check of an adjoint that a solver does before its first step."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from linops_core.siblings import is_transformed

from ._checks import check_like
from ._precision import OperatorPair


@torch.no_grad()
def check_adjoint(pair: OperatorPair, u: Tensor, back: Tensor | None = None) -> None:
    """Raise an error unless <u, A A^H u> is |A^H u|^2, where ``back`` is A^H u if it is known.

    It costs one application of A, and one of the adjoint if ``back`` is not given, an inner product
    and three norms.
    """
    if is_transformed():
        return
    back = pair.adjoint(u) if back is None else back
    if back.is_complex() and pair.is_complex_linear and not u.is_complex():
        u = u.to(u.dtype.to_complex())  # a complex A may have a real y
    norm_of_back, norm_of_u = pair.norms_of([back], [u])
    if not norm_of_back:
        return
    alpha = norm_of_back / norm_of_u
    image = pair.forward(back / norm_of_back) / alpha
    check_like(pair.owner, f"the output of {pair.name}", image, "y", u)
    adjoint_rounding(pair, u / norm_of_u, back, 1.0, image, alpha)


def adjoint_rounding(
    pair: OperatorPair, u: Tensor, v: Tensor, alpha: float, image: Tensor, unit: float
) -> tuple[float, float]:
    """Return bounds of the rounding of alpha and of |A|, or zeros where alpha is far above it.

    For unit vectors u and v = A^H u / alpha, the image is A v, over the unit as alpha is. A
    ValueError is raised if <u, A v> is not alpha.
    """
    along = pair.output.inner(u, image)
    product = complex((along if pair.is_complex_linear else along.real).item())
    (norm_of_image,) = pair.norms_of([], [image])
    apart, precision = abs(product - alpha), torch.finfo(pair.dtype).eps
    if apart <= precision ** (1 / 3) * norm_of_image < alpha:
        return 0.0, 0.0
    # A^H u may be only rounding. Then v is an arbitrary direction. A random vector shows how large
    # rounding is.
    # Sums round in the dtype of v; in half precision, A and its adjoint round more.
    noise = max(256 * torch.finfo(v.dtype).eps, 2 * precision)
    other = pair.input.random_like(v)
    bound_of_A = pair.output.norm(pair.forward(other / pair.input.norm(other)) / unit).item()
    bound_of_A *= math.sqrt(pair.input.count(other))
    rounding = noise * bound_of_A
    if not apart <= max(rounding, precision ** (1 / 3) * norm_of_image):
        raise ValueError(
            f"{pair.owner}: adjoint must be the adjoint of A (dottest compares them), got "
            f"<A^H u, v> = {alpha * unit:.6g} and <u, A v> = {product * unit:.6g} for the first u "
            "and v"
        )
    return rounding, bound_of_A
