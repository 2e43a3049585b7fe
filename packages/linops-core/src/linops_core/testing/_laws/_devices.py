"""Laws of devices (also the meta device), dtypes, and modes of torch."""

from __future__ import annotations

import torch

from ._factories import LinopFactories, energy, tensors_of


class DeviceLaws(LinopFactories):
    """An operator gives the same values on any device, in any precision and in any mode."""

    def test_casting_changes_the_precision_and_not_the_kind(self) -> None:
        A = self.make_linop()
        derived = [A, A.H, A.N]
        kinds = [tensor.is_complex() for tensor in tensors_of(A)]
        assert A.to(torch.float32) is A
        assert [tensor.is_complex() for tensor in tensors_of(A)] == kinds
        assert not {t.dtype for t in tensors_of(A)} & {torch.float64, torch.complex128}
        for linop, (_, x) in zip(derived, self.derived(A, torch.complex64), strict=False):
            may_be_real = not A.is_complex_linear
            assert linop(x).dtype in (torch.complex64, may_be_real and torch.float32)

    def test_results_have_the_precision_of_weights_and_input(self) -> None:
        for precision, kinds in (
            (torch.float32, (torch.float32, torch.complex64)),
            (torch.float64, (torch.float64, torch.complex128)),
        ):
            A = self.make_linop().to(precision)
            for dtype in kinds:
                for linop, x in self.derived(A, dtype):
                    assert linop(x).dtype in kinds
                    keeps = linop(x).is_complex() or not x.is_complex()
                    assert keeps or not A.is_complex_linear  # which may return a real part

    def test_derived_operators_move_along(self) -> None:
        self.check_moves(memory_aware=False)

    def test_derived_operators_move_along_when_memory_is_kept_shared(self) -> None:
        self.check_moves(memory_aware=True)

    def check_moves(self, memory_aware: bool) -> None:
        """Check that an operator and derived operators move together, and work there."""
        A = self.make_linop()
        derived = self.derived(A)
        lengths = [linop(x).shape for linop, x in derived]
        assert A.to("meta", memory_aware=memory_aware) is A
        for (linop, x), shape in zip(derived, lengths, strict=True):
            assert all(tensor.is_meta for tensor in tensors_of(linop))
            y = linop(x.to("meta"))
            assert y.is_meta
            assert y.shape == shape

    def test_results_are_where_weights_and_input_are(self) -> None:
        A = self.make_linop()
        for linop, x in self.derived(A):
            # Tensors made without a device have no values here.
            with torch.device("meta"):
                y = linop(x)
            assert y.device == x.device
            assert self.close(y, linop(x))

    def test_an_accelerator_gives_the_same_values(self) -> None:
        device = torch.accelerator.current_accelerator(check_available=True)
        if device is None:
            return
        A = self.make_linop().to(torch.float32)
        derived = self.derived(A, torch.complex64)
        expected = [linop(x) for linop, x in derived]
        A.to(device)
        for (linop, x), y in zip(derived, expected, strict=True):
            found = linop(x.to(device))
            assert found.device.type == device.type
            assert self.close(found.cpu(), y, rtol=1e-4)

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
