"""Laws of devices (also the meta device), dtypes, and modes of torch."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch

from ..._base._linop import NamedLinop
from ._factories import LinopFactories, energy, has_tensors, tensors_of


class DeviceLaws(LinopFactories):
    """An operator gives the same values on any device, in any precision and in any mode."""

    def test_casting_changes_the_precision_and_not_the_kind(self) -> None:
        A = self.make_linop()
        derived = [A, A.H, A.N]
        kinds = [tensor.is_complex() for tensor in tensors_of(A)]
        assert A.to(torch.float32) is A, "A.to(torch.float32) must be A itself, got another"
        dtypes = [tensor.dtype for tensor in tensors_of(A)]
        assert [dtype.is_complex for dtype in dtypes] == kinds, (
            f"A.to(torch.float32) must keep real and complex weights so, got {dtypes}"
        )
        assert not {*dtypes} & {torch.float64, torch.complex128}, (
            f"A.to(torch.float32) must have weights in single precision, got {dtypes}"
        )
        expected = [torch.complex64] if A.is_complex_linear else [torch.complex64, torch.float32]
        for linop, (_, x, name) in zip(derived, self.derived(A, torch.complex64), strict=False):
            dtype = linop(x).dtype
            assert dtype in expected, f"{name}(x), made before, must be {expected}, got {dtype}"

    def test_results_have_the_precision_of_weights_and_input(self) -> None:
        for precision, kinds in (
            (torch.float32, (torch.float32, torch.complex64)),
            (torch.float64, (torch.float64, torch.complex128)),
        ):
            A = self.make_linop().to(precision)
            for dtype in kinds:
                for linop, x, name in self.derived(A, dtype):
                    y = linop(x)
                    what = f"{name}(x) for x of {dtype} and weights of {precision} must be"
                    assert y.dtype in kinds, f"{what} one of {kinds}, got {y.dtype}"
                    keeps = y.is_complex() or not x.is_complex()
                    assert keeps or not A.is_complex_linear, f"{what} complex, got {y.dtype}"

    def test_derived_operators_move_along(self) -> None:
        self.check_moves(memory_aware=False)

    def test_derived_operators_move_along_when_memory_is_kept_shared(self) -> None:
        self.check_moves(memory_aware=True)

    def check_moves(self, memory_aware: bool) -> None:
        """Check that an operator and derived operators move together, and work there."""
        A = self.make_linop()
        derived = self.derived(A)
        lengths = [linop(x).shape for linop, x, _ in derived]
        assert A.to("meta", memory_aware=memory_aware) is A, "A.to() must be A, got another"
        for (linop, x, name), shape in zip(derived, lengths, strict=True):
            devices = [tensor.device.type for tensor in tensors_of(linop)]
            assert {*devices} <= {"meta"}, f"the weights of {name} must be moved, got {devices}"
            y = linop(x.to("meta"))
            assert y.is_meta, f"{name}(x) for x on meta must be there, got {y.device}"
            assert y.shape == shape, f"{name}(x) on meta must have {shape}, got {y.shape}"

    def test_an_operator_and_its_results_are_where_its_data_are(self) -> None:
        expected = self.derived(self.make_linop())
        A, has_data = self.made_under_another_default_device()
        devices = {tensor.device.type for tensor in tensors_of(A)}
        assert not has_data or devices <= {"cpu"}, (
            f"A made of data on cpu under another default device must be there, got {devices}"
        )
        if devices - {"cpu"}:
            return  # made of numbers, on the default device
        with torch.device("meta"):  # tensors made without a device have no values here
            derived = [A, A.H, A.N, A.H.N, A.T]
        for (linop, x, name), other in zip(expected, derived, strict=True):
            with torch.device("meta"):
                y = other(x)
            what = f"{name}(x) under another default device"
            assert y.device == x.device, f"{what} must be on {x.device}, got {y.device}"
            self.agree(y, linop(x), what)

    def made_under_another_default_device(self) -> tuple[NamedLinop, bool]:
        """Return the operator, and whether its class was given tensors or operators."""
        cls, has_data = type(self.make_linop()), False
        make = cls.__init__

        def elsewhere(linop: NamedLinop, *args: Any, **options: Any) -> None:
            nonlocal has_data
            has_data |= any(map(has_tensors, (*args, *options.values())))
            with torch.device("meta"):
                make(linop, *args, **options)

        with mock.patch.object(cls, "__init__", elsewhere):
            return self.make_linop(), has_data

    def test_an_accelerator_gives_the_same_values(self) -> None:
        device = torch.accelerator.current_accelerator(check_available=True)
        if device is None:
            return
        A = self.make_linop().to(torch.float32)
        derived = self.derived(A, torch.complex64)
        expected = [linop(x) for linop, x, _ in derived]
        A.to(device)
        for (linop, x, name), y in zip(derived, expected, strict=True):
            actual = linop(x.to(device))
            what = f"{name}(x) on {device}"
            assert actual.device.type == device.type, f"{what} must be there, got {actual.device}"
            self.agree(actual.cpu(), y, what, rtol=1e-4)

    def test_without_gradients_values_are_the_same_and_nothing_is_recorded(self) -> None:
        for linop, x, name in self.derived(self.make_linop()):
            with torch.no_grad():
                y = linop(x)
            assert not y.requires_grad, f"{name}(x) without gradients must record none, got {y}"
            self.agree(y, linop(x), f"{name}(x) without gradients")

    def test_an_operator_works_within_inference(self) -> None:
        A = self.make_linop()
        derived = self.derived(A)
        with torch.inference_mode():
            results = [linop(x.clone()) for linop, x, _ in derived]
        for y, (linop, x, name) in zip(results, derived, strict=True):
            self.agree(y, linop(x), f"{name}(x) in inference mode")

    def test_what_is_derived_within_inference_works_outside(self) -> None:
        A, B = self.make_linop(), self.make_linop()
        with torch.inference_mode():
            A.H, A.N, A.H.N  # noqa: B018 (derived operators are kept)
        for (linop, x, name), (other, _, _) in zip(self.derived(A), self.derived(B), strict=True):
            x.requires_grad_()
            self.agree(linop(x), other(x), f"{name}(x), with {name} derived in inference mode,")
            if other(x).requires_grad:
                torch.autograd.backward(energy(linop)(x))

    def test_an_operator_that_was_made_within_inference_works_outside(self) -> None:
        with torch.inference_mode():
            A = self.make_linop()
        with torch.no_grad():
            others = self.derived(self.make_linop())
            for (linop, x, name), (other, _, _) in zip(self.derived(A), others, strict=True):
                self.agree(linop(x), other(x), f"{name}(x), with A made in inference mode,")

    def test_autocast_changes_no_more_than_the_precision(self) -> None:
        A = self.make_linop().to(torch.float32)
        for dtype in (torch.float32, torch.complex64):
            for linop, x, name in self.derived(A, dtype):
                y = linop(x)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    actual = linop(x)
                what = f"{name}(x) under autocast"
                assert actual.is_complex() == y.is_complex(), (
                    f"{what} must be complex as {y.dtype} is, got {actual.dtype}"
                )
                self.agree(actual.to(y.dtype), y, what, rtol=0.1)
