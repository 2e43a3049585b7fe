"""Operators of other libraries, as operators of this one with the same numbers.

Each function gives what the other library computes, in its unit, sign, order, centre and scale, as
an operator of ours: with the exact adjoint, batches, gradients, the dtype of the data and names of
dimensions. It compares both on a random input and raises an error if they differ.

Images and measurements of DeepInverse are real or complex tensors whose first axis is a batch,
(B, C, H, W). Some of its operators, such as those of MRI, represent a complex image by two real
channels, the real and the imaginary part. Use ``complex_channels=True`` for these operators and
for real networks.
"""

from ._deepinv import from_deepinv as from_deepinv
from ._deepinv import to_deepinv as to_deepinv
from ._mrpro import from_mrpro as from_mrpro
from ._mrpro import to_mrpro as to_mrpro
from ._non_uniform import from_finufft as from_finufft
from ._non_uniform import from_mrinufft as from_mrinufft
from ._non_uniform import from_pynufft as from_pynufft
from ._non_uniform import from_pytorch_finufft as from_pytorch_finufft
from ._non_uniform import from_torchkbnufft as from_torchkbnufft
from ._wavelets import from_ptwt as from_ptwt
from ._wavelets import from_pywt as from_pywt
from ._xray import from_astra as from_astra
from ._xray import from_skimage as from_skimage

__all__ = [
    "from_astra",
    "from_deepinv",
    "from_finufft",
    "from_mrinufft",
    "from_mrpro",
    "from_ptwt",
    "from_pynufft",
    "from_pytorch_finufft",
    "from_pywt",
    "from_skimage",
    "from_torchkbnufft",
    "to_deepinv",
    "to_mrpro",
]
