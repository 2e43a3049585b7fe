"""Hypothesis strategies for views and programs, to test operations and analyses.

Needs hypothesis (the extra ``testing``); ``memmap`` itself never imports it.
"""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import strategies as st

from .._views._overlap import has_internal_overlap
from ..testing._views import views
from ._operation import Operation
from ._tensors import Tensor, TensorView

__all__ = ["MixOperation", "programs", "tensor_views"]


class MixOperation(Operation):
    """An operation that shows what it read: it writes values that depend on its name and inputs.

    If two such operations are swapped, or one reads other values, other values are written.

    Attributes
    ----------
    seen : bytes
        The bytes that the last execution read; empty before.

    Examples
    --------
    >>> x = TensorView("x", Tensor("A", (2,), "int64"))
    >>> mix = MixOperation("mix").set_inputs(x).set_outputs(x)
    >>> mix.execute()
    >>> mix.seen == bytes(16), x.numpy().tolist() == [0, 0]
    (True, False)
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.seen = b""

    def execute(self) -> None:
        """Read every input, then write every output in turn."""
        arrays = [view.numpy() for view in self.input_views if isinstance(view, TensorView)]
        self.seen = b"".join(array.tobytes() for array in arrays)
        digest = hashlib.blake2b(self.name.encode() + b"|" + self.seen, digest_size=8).digest()
        random = np.random.default_rng(int.from_bytes(digest))
        for view in self.output_views:
            if isinstance(view, TensorView):
                view.numpy()[...] = random.integers(1 << 62, size=view.shape)


@st.composite
def tensor_views(
    draw: st.DrawFn, tensor: Tensor, name: str = "view", overlap_itself: bool = True
) -> TensorView:
    """Any view of a tensor: with 0 to 3 dimensions, any strides and signs, also empty.

    Parameters
    ----------
    tensor : Tensor
        The memory, of at least one element.
    name : str, optional
        Name of the view.
    overlap_itself : bool, optional
        Whether two elements of the view may share a place.
    """
    # A view in which each element of the tensor counts as one byte.
    drawn = draw(views(tensor.size, itemsizes=(1,)))
    if not overlap_itself and has_internal_overlap(drawn):
        return TensorView(name, tensor, drawn.offset, (1,), (1,))
    return TensorView(name, tensor, drawn.offset, drawn.sizes, drawn.strides)


@st.composite
def programs(draw: st.DrawFn, max_operations: int = 8) -> list[MixOperation]:
    """Programs on one or two small tensors, with views that are used repeatedly.

    Each operation reads and writes up to two views; no output overlaps itself.

    Parameters
    ----------
    max_operations : int, optional
        Largest number of operations.
    """
    tensors = [
        Tensor(f"tensor{i}", (draw(st.integers(1, 12)),), "int64")
        for i in range(draw(st.integers(1, 2)))
    ]
    some_tensor = st.sampled_from(tensors)
    n_views = draw(st.integers(1, 5))
    to_read = [draw(tensor_views(draw(some_tensor), f"read{i}")) for i in range(n_views)]
    to_write = [draw(tensor_views(draw(some_tensor), f"write{i}", False)) for i in range(n_views)]
    reads = st.lists(st.sampled_from(to_read + to_write), max_size=2)
    writes = st.lists(st.sampled_from(to_write), max_size=2)
    return [
        MixOperation(f"op{i}").set_inputs(*draw(reads)).set_outputs(*draw(writes))
        for i in range(draw(st.integers(1, max_operations)))
    ]
