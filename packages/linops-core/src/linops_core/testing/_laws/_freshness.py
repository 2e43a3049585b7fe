"""Laws of change: nothing that was derived before a change of the weights is out of date."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..._base._linop import NamedLinop
from ._factories import LinopFactories, is_number, places_of, weights_of


class FreshnessLaws(LinopFactories):
    """``A.H`` and ``A.N`` follow A, whatever happens to its weights and however."""

    def test_derived_operators_follow_writes_into_the_weights(self) -> None:
        def write(A: NamedLinop) -> None:
            for tensor in weights_of(A).values():
                tensor.detach().copy_(torch.randn_like(tensor))

        self.check_followed(write)

    def test_derived_operators_follow_replaced_weights(self) -> None:
        def replace(A: NamedLinop) -> None:
            replaced: dict[int, Tensor] = {}
            for place in list(places_of(A)):
                new = torch.randn_like(place.tensor)
                if isinstance(place.tensor, nn.Parameter):
                    new = nn.Parameter(new)
                # What is one tensor stays one.
                new = replaced.setdefault(id(place.tensor), new)
                setattr(place.owner, place.name, new)

        self.check_followed(replace)

    def test_derived_operators_follow_a_loaded_state(self) -> None:
        self.check_followed(lambda A: load(A, assign=False))

    def test_derived_operators_follow_an_assigned_state(self) -> None:
        self.check_followed(lambda A: load(A, assign=True))

    def test_derived_operators_follow_a_cast(self) -> None:
        self.check_followed(lambda A: A.to(torch.float32), torch.complex64, rtol=1e-5)

    def check_followed(
        self,
        change: Callable[[NamedLinop], object],
        dtype: torch.dtype = torch.complex128,
        rtol: float | None = None,
    ) -> None:
        """Check that what was derived before ``change`` is what is derived after it."""
        A = self.make_linop()
        before = self.derived(A, dtype)
        change(A)
        other = copy.deepcopy(A)
        after = (other, other.H, other.N, other.H.N, other.T)
        for (old, x), new in zip(before, after, strict=True):
            y, expected = old(x), new(x)
            assert y.dtype is expected.dtype
            assert self.close(y, expected, rtol)
        (_, x), (adjoint, _), (normal, _), *_ = before
        assert self.close(adjoint(A(x)), normal(x), rtol)


def load(A: NamedLinop, assign: bool) -> None:
    """Load random values into the weights of ``A``."""
    state: dict[str, Tensor] = {}
    values: dict[int, Tensor] = {}
    for key, tensor in A.state_dict(keep_vars=True).items():
        new = torch.randn_like(tensor.detach()) if is_number(tensor) else tensor.detach()
        state[key] = values.setdefault(id(tensor), new)
    A.load_state_dict(state, assign=assign)
