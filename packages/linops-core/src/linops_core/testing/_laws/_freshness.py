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

    def test_copies_with_other_weights_use_nothing_that_was_kept_for_the_old(self) -> None:
        A = self.make_linop()
        for linop, x, _ in self.derived(A):
            linop(x)
        other, fresh = (linop.with_weights(other_weight) for linop in (A, self.make_linop()))
        for (new, x, name), expected in zip(
            self.derived(other)[:3], (fresh, fresh.H, fresh.N), strict=True
        ):
            what = f"{name}(x) of A.with_weights(change), after A was used,"
            self.agree(new(x), expected(x), what)

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


def other_weight(weight: Tensor) -> Tensor:
    """Return other values that an operator may have in the place of a weight."""
    is_number = weight.is_floating_point() or weight.is_complex()
    return weight.detach() * 0.75 if is_number else weight.flip(0)


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
