"""The discrete Fourier transform of real signals."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from memmap.siblings import check_flags
from nameddim import NamedShape

from .._algebra._normal import Normal
from .._base._linop import NamedLinop
from .._kernels._dtype import as_complex, real_part
from .._kernels._real_transforms import normal_of_half, real_signal
from .._numbers import is_size
from ._fft import ADJOINT_NORM
from ._grid_names import Dims, GridNames
from ._grid_operator import GridOperator, MixedAxis


class RealFFT(GridOperator[MixedAxis]):
    r"""The discrete Fourier transform of a real signal, as half a spectrum:

    .. math:: y_k = s \sum_n x_n e^{-2 \pi i \, k \cdot n / N}, \quad k_d = 0, \dots, N_d // 2

    in the last dimension d of ``dims``, and all k in the other dimensions. The values for other k
    are conjugates of these. The factor s is the same as in :class:`FFT`. The imaginary part of a
    complex input is ignored, so the operator is linear over the reals only
    (:attr:`NamedLinop.is_complex_linear`).

    The adjoint with respect to :math:`\mathrm{Re} \langle x, y \rangle` is :math:`x_n = s \,
    \mathrm{Re} \sum_k y_k e^{2 \pi i k \cdot n / N}`, with the sum over the half spectrum. It is
    not ``irfft``, which counts each k twice, except the first one and, for even N, the last one.
    With norm "ortho", ``A.N`` is half the identity plus half the projection onto these k.

    Parameters
    ----------
    dims : sequence of dimensions
        Dimensions to transform. They cannot be sliced. The last one has half the spectrum.
    size : int
        Length of the last of ``dims``. The adjoint needs it, because half a spectrum does not
        determine it.
    norm, centered
        As for :class:`FFT`. Along the last dimension, k starts at 0 also with ``centered``.
    shape : sequence of dimensions, optional
        All dimensions of the input, with ``dims`` at any places. By default ``("...", *dims)``; in
        a composition, the dimensions that the neighbouring operator returns.
    to : sequence of dimensions, optional
        Names of ``dims`` in the output. By default they keep their names, although the last one
        changes its length.

    Raises
    ------
    ValueError
        If norm or size is not one of the values above, or ``dims``, ``shape`` and ``to`` do not fit
        each other.
    TypeError
        When called, if torch has no transform of half precision on the device of the input.

    References
    ----------
    H. V. Sorensen, D. L. Jones, M. T. Heideman and C. S. Burrus, "Real-valued fast Fourier
    transform algorithms", IEEE Transactions on Acoustics, Speech, and Signal Processing 35 (1987).

    Examples
    --------
    >>> A = RealFFT(("Nx",), 4, norm="backward", to=("Kx",))
    >>> A(torch.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([ 3.+0.j,  1.-2.j, -1.+0.j])
    >>> A.H(torch.tensor([1.0, 1.0, 0.0]))
    tensor([2., 1., 0., 1.])
    """

    is_complex_linear = False
    takes_any_batch = True
    why_mixed = "a Fourier transform mixes all of its grid"

    def __init__(
        self,
        dims: Dims,
        size: int,
        norm: str = "ortho",
        centered: bool = False,
        *,
        shape: Dims | None = None,
        to: Dims | None = None,
    ) -> None:
        check_flags("RealFFT", centered=centered)
        if norm not in [*ADJOINT_NORM]:
            raise ValueError(f"RealFFT: norm must be one of {[*ADJOINT_NORM]}, got {norm!r}")
        if not is_size(size):
            raise ValueError(f"RealFFT: size must be a positive integer, got {size!r}")
        names = GridNames.along("RealFFT", dims, shape, to)
        full = names.shape(from_grid=names.grid, to_grid=names.result)
        axes = [MixedAxis(None, None)] * (len(names.grid) - 1)
        axes.append(MixedAxis(int(size), int(size) // 2 + 1))
        super().__init__(full, axes, names.is_free)
        self.norm, self.centered, self.n_points = norm, centered, int(size)

    @staticmethod
    def fn(linop: RealFFT, x: Tensor, /) -> Tensor:
        """Return half the spectrum of Re x."""
        axes, x = linop.grid_axes[0], _real_float(x)
        if not x.numel():  # an empty batch; not every FFT library accepts one
            return as_complex(x.narrow(axes[-1], 0, linop.n_points // 2 + 1))
        x = torch.fft.ifftshift(x, dim=axes) if linop.centered else x
        y = torch.fft.rfftn(x, dim=axes, norm=linop.norm)
        others = axes[:-1] if linop.centered else ()
        centred: Tensor = torch.fft.fftshift(y, dim=others) if others else y
        return centred

    @staticmethod
    def adj_fn(linop: RealFFT, x: Tensor, /) -> Tensor:
        """Return the real signal to which each k of the half spectrum contributes once."""
        axes, n, norm = linop.grid_axes[1], linop.n_points, ADJOINT_NORM[linop.norm]
        (*others, last), y = axes, as_complex(x)
        if not y.numel():
            return y.real.index_select(last, torch.zeros(n, dtype=torch.long, device=y.device))
        z = torch.fft.ifftshift(y, dim=others) if others and linop.centered else y
        z = torch.fft.ifftn(z, dim=others, norm=norm) if others else z
        image = real_signal(z.movedim(last, -1), n, norm).movedim(-1, last)
        centred: Tensor = torch.fft.fftshift(image, dim=axes) if linop.centered else image
        return centred

    @staticmethod
    def normal_fn(linop: RealFFT, x: Tensor, /) -> Tensor:
        """Return s^2 N / 2 times Re x plus its parts of k = 0 and, for even N, k = N / 2."""
        axes, x = linop.grid_axes[0], _real_float(x)
        if not x.numel():
            return x
        points = math.prod([x.shape[axis] for axis in axes])
        scale = {"ortho": 1.0, "backward": points, "forward": 1 / points}[linop.norm]
        return scale * normal_of_half(x.movedim(axes[-1], -1)).movedim(-1, axes[-1])

    def own_normal(self) -> NamedLinop:
        """Return the closed form, or the composition for an adjoint."""
        if self.is_adjoint:
            return super().own_normal()
        return Normal(self, NamedShape(self.ishape))


def _real_float(x: Tensor) -> Tensor:
    """Return Re x; integers in torch's default dtype."""
    is_number = x.is_floating_point() or x.is_complex()
    return real_part(x) if is_number else x.to(torch.get_default_dtype())
