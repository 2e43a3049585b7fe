"""Laws of modes: without gradients, in inference and under autocast values are the same."""

from __future__ import annotations

import torch

from ._factories import LinopFactories, energy


class ModeLaws(LinopFactories):
    """A mode changes what is recorded and in which precision is computed, and no value."""

    def test_without_gradients_values_are_the_same_and_nothing_is_recorded(self) -> None:
        for linop, x in self.derived(self.make_linop()):
            with torch.no_grad():
                y = linop(x)
            assert not y.requires_grad
            assert self.close(y, linop(x))

    def test_an_operator_works_within_inference(self) -> None:
        A = self.make_linop()
        derived = self.derived(A)
        with torch.inference_mode():
            found = [linop(x.clone()) for linop, x in derived]
        assert all(self.close(y, linop(x)) for y, (linop, x) in zip(found, derived, strict=True))

    def test_what_is_derived_within_inference_works_outside(self) -> None:
        A, B = self.make_linop(), self.make_linop()
        with torch.inference_mode():
            A.H, A.N, A.H.N  # noqa: B018 (derived operators are kept)
        for (linop, x), (other, _) in zip(self.derived(A), self.derived(B), strict=True):
            x.requires_grad_()
            assert self.close(linop(x), other(x))
            if other(x).requires_grad:
                torch.autograd.backward(energy(linop)(x))

    def test_an_operator_that_was_made_within_inference_works_outside(self) -> None:
        with torch.inference_mode():
            A = self.make_linop()
        with torch.no_grad():
            others = self.derived(self.make_linop())
            for (linop, x), (other, _) in zip(self.derived(A), others, strict=True):
                assert self.close(linop(x), other(x))

    def test_autocast_changes_no_more_than_the_precision(self) -> None:
        A = self.make_linop().to(torch.float32)
        for dtype in (torch.float32, torch.complex64):
            for linop, x in self.derived(A, dtype):
                y = linop(x)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    found = linop(x)
                assert found.is_complex() == y.is_complex()
                assert self.close(found.to(y.dtype), y, rtol=0.1)
