"""Laws of change: derived operators follow a change of the weights."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from ..._base._linop import NamedLinop
from ._factories import LinopFactories, weights_with_owners


class FreshnessLaws(LinopFactories):
    """``A.H`` and ``A.N`` follow every change of the weights of A."""

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
        """Check that operators derived before a change equal those derived after it."""
        A = self.make_linop()
        before = self.derived(A, dtype)
        change_weights(A, way)
        other = copy.deepcopy(A)
        after = (other, other.H, other.N, other.H.N, other.T)
        for (old, x, name), new in zip(before, after, strict=True):
            y, expected = old(x), new(x)
            what = f"{name}(x), made before the change ({way}),"
            assert y.dtype is expected.dtype, f"{what} must be {expected.dtype}, got {y.dtype}"
            self.agree(y, expected, what, rtol)
        (_, x, _), (adjoint, _, _), (normal, _, _), *_ = before
        self.agree(adjoint(A(x)), normal(x), f"A.H(A(x)) after the change ({way})", rtol)


def change_weights(A: NamedLinop, way: str) -> None:
    """Change the weights of ``A`` ("cast": another precision); shared tensors stay shared."""
    if way == "cast":
        A.to(torch.float32)
        return
    held = list(weights_with_owners(A))
    new: dict[int, Tensor] = {}
    for _, _, tensor in held:
        value = torch.randn_like(tensor.detach())
        new[id(tensor)] = nn.Parameter(value) if isinstance(tensor, nn.Parameter) else value
    if way in ("load", "assign"):
        state = A.state_dict(keep_vars=True).items()
        values = {key: new.get(id(tensor), tensor).detach() for key, tensor in state}
        A.load_state_dict(values, assign=way == "assign")
        return
    for owner, name, tensor in held:
        if way == "write":
            tensor.detach().copy_(new[id(tensor)].detach())
        else:
            setattr(owner, name, new[id(tensor)])
