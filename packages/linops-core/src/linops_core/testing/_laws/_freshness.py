"""Laws of change: nothing that was derived before a change of the weights is out of date."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from ..._base._linop import NamedLinop
from ._factories import LinopFactories, is_number, places_of


class FreshnessLaws(LinopFactories):
    """``A.H`` and ``A.N`` follow A, whatever happens to its weights and however."""

    def test_derived_operators_follow_writes_into_the_weights(self) -> None:
        self.check_followed("write")

    def test_derived_operators_follow_replaced_weights(self) -> None:
        self.check_followed("replace")

    def test_derived_operators_follow_a_loaded_state(self) -> None:
        self.check_followed("load")

    def test_derived_operators_follow_an_assigned_state(self) -> None:
        self.check_followed("assign")

    def test_derived_operators_follow_a_cast(self) -> None:
        self.check_followed("cast", torch.complex64, rtol=1e-5)

    def check_followed(
        self, way: str, dtype: torch.dtype = torch.complex128, rtol: float | None = None
    ) -> None:
        """Check that what was derived before a change is what is derived after it."""
        A = self.make_linop()
        before = self.derived(A, dtype)
        change_weights(A, way)
        other = copy.deepcopy(A)
        after = (other, other.H, other.N, other.H.N, other.T)
        for (old, x), new in zip(before, after, strict=True):
            y, expected = old(x), new(x)
            assert y.dtype is expected.dtype
            assert self.close(y, expected, rtol)
        (_, x), (adjoint, _), (normal, _), *_ = before
        assert self.close(adjoint(A(x)), normal(x), rtol)


def change_weights(A: NamedLinop, way: str) -> None:
    """Give random values to the weights of ``A``; what is one tensor stays one.

    Parameters
    ----------
    A : NamedLinop
    way : {"write", "replace", "load", "assign", "cast"}
        The last one keeps the values, in single precision.
    """
    if way == "cast":
        A.to(torch.float32)
        return
    state = {**dict(A.state_dict(keep_vars=True))}
    tensors = [*state.values(), *(tensor for _, _, tensor in places_of(A))]
    new = {id(t): torch.randn_like(t.detach()) if is_number(t) else t.detach() for t in tensors}
    if way in ("load", "assign"):
        values = {key: new[id(tensor)] for key, tensor in state.items()}
        A.load_state_dict(values, assign=way == "assign")
        return
    replaced: dict[int, Tensor] = {}
    for owner, name, tensor in list(places_of(A)):
        value = new[id(tensor)]
        if way == "write":
            tensor.detach().copy_(value)
        else:
            value = nn.Parameter(value) if isinstance(tensor, nn.Parameter) else value
            setattr(owner, name, replaced.setdefault(id(tensor), value))
