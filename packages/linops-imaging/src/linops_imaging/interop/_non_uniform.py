"""Non-uniform Fourier transforms of other libraries, as our NUFFT."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor

from linops_core import NamedLinop
from nameddim import NamedDimension

from .._extras import optional_module
from ._in_radians import NufftOptions, transform, with_maps
from ._matching_operator import matching_operator

if TYPE_CHECKING:
    from finufft import Plan
    from mrinufft.operators.base import FourierOperatorBase
    from pynufft import NUFFT as PyNUFFT
    from torchkbnufft import KbNufft, KbNufftAdjoint

# Their own errors are up to 1e-2; a wrong sign, unit, centre or scale is an error of about 1.
_TOL = 3e-2


def from_finufft(plan: Plan, **options: Unpack[NufftOptions]) -> NamedLinop:
    r"""Return the operator of a plan of finufft, of type 1 or 2, whose points are set.

    finufft sums without a scale, :math:`\sum_r x_r e^{\pm i \omega_j \cdot r}`, with points in
    radians per pixel. A plan does not say its sign and its order of modes, so that both are found
    by applying it once.

    Parameters
    ----------
    plan : finufft.Plan
        Type 2, from an image to points, or type 1, from points to an image. (Type 3 has no image.)
    **options
        Of :class:`NUFFT`: ``output_shape``, ``input_shape``, ``batch_shape``, ``tol`` (1e-6 by
        default), ``method`` and ``toeplitz``.

    Returns
    -------
    NamedLinop
        A scaled NUFFT, or the adjoint of one. Its ``H`` is the exact adjoint, also where finufft's
        pair with one ``eps`` is not one (three dimensions, single precision).

    Raises
    ------
    ImportError
        If finufft is not installed (the extra ``finufft``).
    TypeError
        If ``plan`` is not a plan.
    ValueError
        If it is of type 3, has no points, or computes something else.
    """
    owner = "from_finufft"
    kind = optional_module("finufft", owner, "finufft").Plan
    if not isinstance(plan, kind):
        raise TypeError(f"{owner}: plan must be a finufft.Plan, got {type(plan)}")
    axes = [getattr(plan, f"_{axis}j", None) for axis in "xyz"[: plan.dim]]
    if plan.type not in (1, 2) or any(points is None for points in axes):
        raise ValueError(
            f"{owner}: plan must be of type 1 or 2, with its points set by plan.setpts, got type "
            f"{plan.type}"
        )
    sizes = [int(size) for size in plan.n_modes][::-1]
    omega = torch.stack([torch.as_tensor(points) for points in axes], -1)
    given: NufftOptions = {"tol": 1e-6, **options}

    def candidates() -> Iterator[NamedLinop]:
        for sign, fft_order in product((-1, 1), (False, True)):
            A = transform(omega, sizes, given, sign=sign * (-1) ** plan.type, fft_order=fft_order)
            yield A if plan.type == 2 else A.H

    lengths = sizes if plan.type == 2 else [len(omega)]
    dtype = torch.complex64 if plan.dtype == "complex64" else torch.complex128

    def theirs(x: Tensor) -> Tensor:
        many = x.expand(plan.n_trans, *lengths) if plan.n_trans > 1 else x
        y = torch.as_tensor(plan.execute(many.contiguous().numpy()))
        return y[0] if plan.n_trans > 1 else y

    return matching_operator(owner, candidates(), theirs, lengths, dtype, _TOL)


def from_pytorch_finufft(
    function: Callable[..., Tensor],
    points: Tensor,
    sizes: Sequence[int],
    *,
    isign: int = -1,
    modeord: int = 1,
    **options: Unpack[NufftOptions],
) -> NamedLinop:
    r"""Return the operator that pytorch-finufft applies as ``function(points, x)``.

    It is :math:`\sum_r x_r e^{\pm i \omega_j \cdot r}` for type 2, and the sum over j for type 1,
    without a scale. By default both have a minus, and index 0 of the modes is frequency 0.

    Parameters
    ----------
    function : function
        ``pytorch_finufft.functional.finufft_type1`` or ``finufft_type2``. It is called once.
    points : Tensor
        (D, K), or (K,) in one dimension, in radians per pixel; gradients reach them.
    sizes : sequence of int
        Sizes of the modes: ``output_shape`` of type 1.
    isign, modeord : int
        The arguments of these names that ``function`` gets, and its defaults.
    **options
        As in :func:`from_finufft`.

    Returns
    -------
    NamedLinop
        A scaled NUFFT, or the adjoint of one, with the exact adjoint. Type 1 of pytorch-finufft is
        not the adjoint of its type 2 with the same sign.

    Raises
    ------
    TypeError
        If ``function`` is neither of the two.
    ValueError
        If it computes something else.
    """
    owner = "from_pytorch_finufft"
    kinds = {"finufft_type1": 1, "finufft_type2": 2}
    kind = kinds.get(getattr(function, "__name__", ""))
    if kind is None:
        raise TypeError(f"{owner}: function must be one of {[*kinds]}, got {function!r}")
    omega, sizes = points.reshape(-1, points.shape[-1]).mT, [int(size) for size in sizes]
    given: NufftOptions = {"tol": 1e-6, **options}
    sign = isign if kind == 2 else -isign
    A = transform(omega, sizes, given, sign=sign, fft_order=modeord == 1)
    shape = () if kind == 2 else (tuple(sizes),)

    def theirs(x: Tensor) -> Tensor:
        return function(points.detach(), x, *shape, isign=isign, modeord=modeord)

    lengths = sizes if kind == 2 else [len(omega)]
    return matching_operator(
        owner, [A if kind == 2 else A.H], theirs, lengths, points.dtype.to_complex(), _TOL
    )


def from_mrinufft(
    operator: FourierOperatorBase,
    coil_dim: NamedDimension | str = "C",
    **options: Unpack[NufftOptions],
) -> NamedLinop:
    r"""Return the operator of mri-nufft's ``op``.

    Its scale is :math:`1 / \sqrt{2^D \prod_d N_d}`. It takes locations for cycles per pixel if all
    are at most 0.5, else for radians per pixel, without a word; the operator has the unit that was
    taken.

    Parameters
    ----------
    operator : mrinufft.operators.base.FourierOperatorBase
        Of one image, with or without coil maps (``smaps``). A batch and coils without maps are the
        ``...`` of the operator that is returned.
    coil_dim : dimension
        Dimension of the coils, if there are maps: ``(..., Nx, Ny)`` to ``(..., C, K)``.
    **options
        As in :func:`from_finufft`.

    Returns
    -------
    NamedLinop
        Its ``H`` is the exact adjoint of ``op``. mri-nufft's ``adj_op`` is that only without
        ``density``: with density weights d it is ``A.H @ Diagonal(d, ("...", "K"))``.

    Raises
    ------
    ImportError
        If mri-nufft is not installed (the extra ``mrinufft``).
    TypeError
        If ``operator`` is not of mri-nufft.
    ValueError
        If it computes something else, as the operators of stacks and of off-resonance do.
    """
    owner = "from_mrinufft"
    kind = optional_module("mrinufft.operators.base", owner, "mrinufft").FourierOperatorBase
    if not isinstance(operator, kind):
        raise TypeError(f"{owner}: operator must be a FourierOperatorBase, got {type(operator)}")
    sizes = [int(size) for size in operator.shape]
    samples = torch.as_tensor(operator.samples).reshape(-1, len(sizes))
    given: NufftOptions = {"tol": 1e-6, **options}
    scale = 1 / math.sqrt(2 ** len(sizes) * math.prod(sizes))
    maps = operator.smaps

    def candidates() -> Iterator[NamedLinop]:
        for unit in (1.0, 2 * math.pi):  # of the backends
            A = transform(unit * samples, sizes, given, scale=scale)
            yield A if maps is None else with_maps(A, maps, coil_dim)

    n_batch = [] if operator.n_batchs == 1 and operator.squeeze_dims else [operator.n_batchs]
    coils = [operator.n_coils] if maps is None and operator.n_coils > 1 else []
    coils = coils or ([1] if n_batch else [])

    def theirs(x: Tensor) -> Any:
        return operator.op(x.reshape(*n_batch, *coils, *sizes).numpy())

    lengths = (*n_batch, *(coils if maps is None else []), *sizes)
    return matching_operator(owner, candidates(), theirs, lengths, samples.dtype.to_complex(), _TOL)


def from_torchkbnufft(
    module: KbNufft | KbNufftAdjoint,
    omega: Tensor,
    smaps: Tensor | None = None,
    norm: str | None = None,
    coil_dim: NamedDimension | str = "C",
    **options: Unpack[NufftOptions],
) -> NamedLinop:
    r"""Return the operator that torchkbnufft applies as ``module(x, omega, smaps=, norm=)``.

    It is :math:`\sum_r x_r e^{-i \omega_j \cdot (r - m)}` with the module's ``n_shift`` m, by
    default ``N // 2``. With ``norm="ortho"`` it is divided by the root of the number of points of
    the *oversampled* grid.

    Parameters
    ----------
    module : torchkbnufft.KbNufft or torchkbnufft.KbNufftAdjoint
        The second gives the adjoint.
    omega : Tensor
        (D, K), in radians per pixel; gradients reach it. Or (B, D, K), frames with their own
        locations: then give ``output_shape=("B", "K")`` and ``batch_shape=("B", "C")``.
    smaps : Tensor, optional
        Complex coil maps, (C, ...) or (1, C, ...).
    norm : {None, "ortho"}
    coil_dim : dimension
        Dimension of the coils, if there are maps: ``(..., Nx, Ny)`` to ``(..., C, K)``.
    **options
        As in :func:`from_finufft`.

    Returns
    -------
    NamedLinop
        On complex tensors, with the precision of the data and errors below ``tol``, by default
        1e-6. torchkbnufft's own error is 7e-4 in single and double precision.

    Raises
    ------
    ImportError
        If torchkbnufft is not installed (the extra ``torchkbnufft``).
    TypeError
        If ``module`` is not one of the two.
    ValueError
        If ``norm`` is unknown, ``smaps`` are of several images, or the module computes something
        else.
    """
    owner = "from_torchkbnufft"
    library = optional_module("torchkbnufft", owner, "torchkbnufft")
    if not isinstance(module, library.KbNufft | library.KbNufftAdjoint):
        raise TypeError(f"{owner}: module must be a KbNufft or KbNufftAdjoint, got {type(module)}")
    if norm not in (None, "ortho"):
        raise ValueError(f'{owner}: norm must be None or "ortho", got {norm!r}')
    numbers: Any = module
    sizes, grid, middle = (
        [int(n) for n in values] for values in (numbers.im_size, numbers.grid_size, numbers.n_shift)
    )
    given: NufftOptions = {"tol": 1e-6, **options}
    A = transform(
        omega.mT,
        sizes,
        given,
        scale=1 / math.sqrt(math.prod(grid)) if norm else 1.0,
        middle=middle,
    )
    frames = omega.shape[:-2]
    is_adjoint = isinstance(module, library.KbNufftAdjoint)
    lengths = [omega.shape[-1]] if is_adjoint else sizes

    def theirs(x: Tensor) -> Tensor:
        coils = x.reshape(*(frames or [1]), 1, *lengths)
        y: Tensor = module(coils, omega.detach().to(x.real.dtype), norm=norm)
        return y

    dtype = numbers.table_0.real.dtype.to_complex()
    A = matching_operator(
        *(owner, [A.H if is_adjoint else A], theirs, (*frames, *lengths), dtype, _TOL),
        n_frames=len(frames),
    )
    if smaps is None:
        return A
    maps = smaps.squeeze(0) if smaps.ndim == 2 + len(sizes) else smaps
    if maps.ndim != 1 + len(sizes):
        raise ValueError(
            f"{owner}: smaps must be the maps of one image, (C, ...) or (1, C, ...), got the shape "
            f"{tuple(smaps.shape)}"
        )
    return with_maps(A.H, maps, coil_dim).H if is_adjoint else with_maps(A, maps, coil_dim)


def from_pynufft(nufft: PyNUFFT, **options: Unpack[NufftOptions]) -> NamedLinop:
    r"""Return the operator of pynufft's ``forward``.

    It is :math:`\sum_r x_r e^{-i \omega_j \cdot (r - N / 2)}`, whose middle is not rounded: for odd
    N it is half a pixel from ours, a ramp of phase along the locations.

    Parameters
    ----------
    nufft : pynufft.NUFFT
        With a plan on a CPU.
    **options
        As in :func:`from_finufft`.

    Returns
    -------
    NamedLinop
        Its ``H`` is the exact adjoint. pynufft's ``adjoint`` is that divided by the number of
        points of its oversampled grid, ``prod(Kd)``, and has single precision.

    Raises
    ------
    ImportError
        If pynufft is not installed (the extra ``pynufft``).
    TypeError
        If ``nufft`` is not a pynufft.NUFFT.
    ValueError
        If it has no plan, or computes something else.
    """
    owner = "from_pynufft"
    kind = optional_module("pynufft", owner, "pynufft").NUFFT
    if not isinstance(nufft, kind):
        raise TypeError(f"{owner}: nufft must be a pynufft.NUFFT, got {type(nufft)}")
    pynufft: Any = nufft
    plan = getattr(pynufft, "st", {})
    if "om" not in plan:
        raise ValueError(f"{owner}: nufft must have a plan, got none; call nufft.plan first")
    sizes = [int(size) for size in plan["Nd"]]
    given: NufftOptions = {"tol": 1e-6, **options}
    omega = torch.as_tensor(plan["om"])
    A = transform(omega, sizes, given, middle=[size / 2 for size in sizes])
    return matching_operator(
        owner, [A], lambda x: pynufft.forward(x.numpy()), sizes, torch.complex128, _TOL
    )
