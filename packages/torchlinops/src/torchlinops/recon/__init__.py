"""Images of MRI scans in one call: :func:`sense` and reconstructions with a penalty.

Each function is short, and its source is a tutorial: it makes the operator of the scan and calls
one solver. Copy it if you need something else. These rules hold for all of them:

- ``kspace`` is a tensor or a NumPy array of complex64 or complex128, and the image is of the same
  kind. Tensors stay on their device. Gradients flow through the solvers, but not through coil maps
  that are made here.
- ``dims`` names each axis of ``kspace``, in any order: ``("C", "Kx", "Ky")`` if the coils are
  first, and ``("Kx", "Ky", "C")`` if they are last. ``coil_dim`` is the name of the coils. Names
  that begin with K are k-space. All others, such as slices and frames, number separate images: an
  image does not depend on the others, except within ``tol``. The image has the same axes without
  the coils, named Nx for Kx.
- **On a grid** (without ``locs``) k-space has two or three axes with zeros where nothing was
  measured. Its centre is at index N // 2 of each axis.
- **Along a trajectory**, ``locs`` has the locations, (..., D) in cycles per field of view from
  -N / 2 to N / 2, as in :class:`~linops_imaging.NUFFT`, and ``grid_size`` the D sizes N of the
  image. The axes of ``locs`` but the last are the K axes of ``kspace``. If each slice or frame has
  its own trajectory, they are all axes of ``kspace`` but the coils. In the image, Nx, Ny and Nz are
  in the place of the first K axis.
- ``maps`` are the sensitivities of the coils: with all axes of the image and of the coils, in the
  order of ``dims``, or without slices and frames, which then share them. If they are not given,
  :func:`~linops_imaging.espirit` makes them from the centre of k-space, of each slice or frame.
  Pass ``maps`` if that is not what you want. The image is zero where the maps are zero.
- ``weights``, bool or not negative, are a mask of the points that were measured, or the weights of
  their squared errors. They have the axes of ``kspace`` without the coils, or the K axes alone. The
  default on a grid is 1, and 0 where all coils have zeros. The default along a trajectory is
  :func:`~linops_imaging.density_compensation`, with which the solvers need fewer steps. Plain least
  squares have ``torch.ones``.
- ``memory`` is a budget in bytes, also as text ("2 GiB"), for the work of the operator, beside the
  vectors of the solver: :func:`~linops_split.plan_batches` chooses coils and slices to compute at
  a time.
- The solver stops after ``max_num_iters`` steps, or when ``tol`` is reached. ``progress=True``
  shows a progress bar, and ``callback``, such as a :class:`~linops_solvers.Record`, gets each step
  and its objective. With a penalty, each of several images is in a unit in which it is as bright as
  the brightest one, so the objective is a sum of functions in these units.
- TypeError: ``kspace`` is not complex, or an argument has a wrong type. ValueError: names, shapes
  or sizes do not fit, coil maps cannot be made, a number is out of range, or an array is a batch of
  ``torch.func.vmap``. ArithmeticError: ``kspace`` has NaN or infinity where ``weights`` are not
  zero.
"""

from ._low_rank_plus_sparse import LowRankPlusSparse as LowRankPlusSparse
from ._low_rank_plus_sparse import low_rank_plus_sparse as low_rank_plus_sparse
from ._sense import sense as sense
from ._sparse import l1_wavelet as l1_wavelet
from ._sparse import total_variation as total_variation

__all__ = [
    "LowRankPlusSparse",
    "l1_wavelet",
    "low_rank_plus_sparse",
    "sense",
    "total_variation",
]
