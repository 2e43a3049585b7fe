"""Every law is seen to be broken: an operator with one bug, and the law that finds it."""

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from linops_core import FFT, Dense, Diagonal, NamedLinop, SliceableLinop
from linops_core.questions import shift_axes, without_fftshift
from linops_core.testing import BaseNamedLinopTests
from nameddim import NamedShape


def values(*lengths: int) -> Tensor:
    return torch.randn(lengths, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))


class BroadcastsItsInput(Diagonal):
    def forward(self, x: Tensor) -> Tensor:
        return self.weight_part("weight") * x


class TakesAnything(Diagonal):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.as_tensor(x))


class NothingWithNothing(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x.reshape(-1, x.shape[-1])).reshape((*x.shape[:-1], -1))


class ConjugateForgotten(Diagonal):
    adj_fn = staticmethod(Diagonal.fn)


class AdjointOfTheOtherSize(Dense):
    @staticmethod
    def adj_fn(linop: Any, x: Tensor) -> Tensor:
        return Dense.adj_fn(linop, x)[:-1]


class WrongNormal(Dense):
    @staticmethod
    def normal_fn(linop: Any, x: Tensor) -> Tensor:
        return 2 * x


class ForwardAsAdjoint(Diagonal):
    adj_fn = staticmethod(Diagonal.fn)
    adjoint = Diagonal.conj  # right for square ones: only adj_fn is wrong


class NotLinear(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x).abs() + 0j


class TwoDimensionsTooMany(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x)[None]


class DropsImaginaryPartOfReal(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        y = Diagonal.fn(linop, x)
        return y if x.is_complex() else y.real


class MixesWhatTheEllipsisStandsFor(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x.cumsum(0))


class NewAdjointEveryTime(Diagonal):
    @property
    def H(self) -> NamedLinop:
        return self.adjoint()


class CopiedWeight(Diagonal):
    def adjoint(self) -> NamedLinop:
        return Diagonal(self.weight.conj().clone(), self.ishape)


class ConjugateOfItself(Diagonal):
    def conj(self) -> NamedLinop:
        return self


class ShiftsNothing(Diagonal):
    """A class that says that a shift of its input shifts its output."""


class HasNoCentre(Diagonal):
    """A class that says that it need not move data."""


class TakesNoBatch(NamedLinop):
    """A class that says that it takes any batch, and mixes the first dimension, whatever it is."""

    takes_any_batch = True

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        return x.flip(0)

    adj_fn = fn


@shift_axes.register(ShiftsNothing)
def _last(linop: NamedLinop) -> tuple[int, ...]:
    return (-1,)


@without_fftshift.register(HasNoCentre)
def _itself(linop: NamedLinop, dims: object) -> NamedLinop:
    return linop


class SupportTooNarrow(Dense):
    def support(self, dim: Any) -> slice | None:
        return slice(0, 1) if dim == "N" else None


class SlicedGrid(FFT):
    def why_opaque(self, dim: str) -> str | None:
        return None


class Rewrapped(Diagonal):
    def __init__(self, weight: Tensor, shape: tuple[str, ...]) -> None:
        super().__init__(nn.Parameter(weight.detach()), shape)


class SharedDictionaries(Diagonal):
    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        vars(other).update(vars(self), _adjoint=None)
        return other


class DeepCopyThatIsShallow(Diagonal):
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)


class ForgottenWhenPickled(Diagonal):
    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_name": "another"}


class NotInTheState(Diagonal):
    def __init__(self, weight: Tensor, shape: tuple[str, ...]) -> None:
        super().__init__(weight, shape)
        self.register_buffer("gain", torch.ones((), dtype=torch.float64), persistent=False)

    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        gain: Tensor = linop.gain
        return gain * Diagonal.fn(linop, x)

    adj_fn = staticmethod(lambda linop, x: linop.gain * Diagonal.adj_fn(linop, x))
    normal_fn = staticmethod(lambda linop, x: linop.gain**2 * Diagonal.normal_fn(linop, x))


class ReprOfValues(Diagonal):
    def __repr__(self) -> str:
        return f"{super().__repr__()} {self.weight.abs().max()}"


class SavesALazyConjugate(Diagonal):
    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        state = super().state_dict(*args, **kwargs)
        return {name: tensor.conj_physical().conj() for name, tensor in state.items()}


class KeptConjugate(Diagonal):
    def adjoint(self) -> NamedLinop:
        adjoint = super().adjoint()
        vars(adjoint)["conjugate"] = self.weight.detach().conj().resolve_conj().clone()
        vars(adjoint)["fn"] = lambda linop, x: linop.conjugate * x
        return adjoint


class KeptPlainTensor(Diagonal):
    """Its weight is an attribute that no move and no cast can see."""

    def __init__(self, weight: Tensor, shape: tuple[str, ...]) -> None:
        super().__init__(weight, shape)
        self.plain = weight.detach().clone()

    fn = staticmethod(lambda linop, x: linop.plain * x)
    adj_fn = staticmethod(lambda linop, x: linop.plain.conj() * x)
    normal_fn = staticmethod(lambda linop, x: linop.plain.abs() ** 2 * x)


class KeptForTheFirstWeight(Diagonal):
    """It keeps the square root of its weight in a plain dictionary, which copies share."""

    def __init__(self, weight: Tensor, shape: tuple[str, ...]) -> None:
        super().__init__(weight, shape)
        self._roots: dict[str, Tensor] = {}

    def root(self) -> Tensor:
        return self._roots.setdefault("root", self.weight.detach().sqrt())

    fn = staticmethod(lambda linop, x: linop.root() * x)
    adj_fn = staticmethod(lambda linop, x: linop.root().conj() * x)
    normal_fn = staticmethod(lambda linop, x: linop.root().abs() ** 2 * x)


class FixedPrecision(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x).to(torch.complex128)


class MadeWithoutADevice(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x) + torch.zeros(x.shape)


class CopiedToTheDefaultDevice(Diagonal):
    def __init__(self, weight: Tensor, shape: tuple[str, ...]) -> None:
        super().__init__(torch.tensor(weight.tolist(), dtype=weight.dtype), shape)


class MadeOfNumbers(Diagonal):
    """Its weight is on the default device, as those of a layer of torch."""

    def __init__(self, size: int) -> None:
        super().__init__(torch.arange(1.0, size + 1, dtype=torch.float64), ("N",))


class BoundToTheCpu(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x) + torch.zeros(x.shape, device="cpu")


class NoGradient(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x.detach()) + 0 * x


class NoGradientToTheWeight(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        weight: Tensor = linop.weight
        return weight.detach() * x


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(weight, x)
        return weight * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, y: Tensor) -> tuple[Tensor, Tensor]:
        weight, x = ctx.saved_tensors
        return y * x.conj(), y * weight.conj()


class DifferentiatedOnce(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        applied: Tensor = _Once.apply(linop.weight, x + 0j)  # type: ignore[no-untyped-call]
        return applied


class BranchesOnValues(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x if x.abs().sum() > 0 else 2 * x)


class BranchesOnWeights(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x if linop.weight.abs().sum() > 0 else 2 * x)


class WritesIntoWhatIsNotBatched(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return torch.zeros(x.shape, dtype=linop.weight.dtype).add_(Diagonal.fn(linop, x))


class KeptInInference(Diagonal):
    def adjoint(self) -> NamedLinop:
        adjoint = super().adjoint()
        vars(adjoint)["one"] = torch.ones(self.weight.shape, dtype=torch.float64)
        vars(adjoint)["fn"] = lambda linop, x: linop.one * Diagonal.adj_fn(linop, x)
        return adjoint


class NotWithinInference(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x) * (1 if x._version >= 0 else 0)


class CountsWrites(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x) * (1 if linop.weight._version >= 0 else 0)


class OtherValuesWithoutGradients(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x) * (1 if torch.is_grad_enabled() else 2)


class NoBfloat16(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        y = Diagonal.fn(linop, x)
        product = y.real @ torch.eye(y.shape[-1], dtype=y.real.dtype)
        return y if product.dtype is y.real.dtype else product


class BreaksTheGraph(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return Diagonal.fn(linop, x)


class OtherValuesWhenCompiled(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return Diagonal.fn(linop, x) * (2 if torch.compiler.is_compiling() else 1)


class FrozenIntoTheGraph(Diagonal):
    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            vars(linop)["constant"] = complex(linop.weight.detach().sum())
        constant: complex = linop.constant
        return Diagonal.fn(linop, x) + constant * x


class BreaksTheGraphOfTheNormal(Diagonal):
    @staticmethod
    def normal_fn(linop: Any, x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return Diagonal.normal_fn(linop, x)


def diagonal(kind: Callable[..., NamedLinop]) -> Callable[[], NamedLinop]:
    return lambda: kind(nn.Parameter(values(3)), ("...", "N"))


BREAKERS: list[tuple[Callable[[], NamedLinop], str]] = [
    (diagonal(NotLinear), "is_linear"),
    (diagonal(ForwardAsAdjoint), "functions_of_operators_and_of_copies_are_what_they_say"),
    (diagonal(TwoDimensionsTooMany), "output_has_the_dimensions_of_oshape"),
    (
        diagonal(DropsImaginaryPartOfReal),
        "real_inputs_give_what_complex_ones_of_that_value_give",
    ),
    (
        diagonal(MixesWhatTheEllipsisStandsFor),
        "an_ellipsis_stands_for_any_number_of_dimensions",
    ),
    (diagonal(NothingWithNothing), "an_ellipsis_stands_for_any_number_of_dimensions"),
    (diagonal(BroadcastsItsInput), "inputs_that_do_not_fit_are_refused"),
    (diagonal(TakesAnything), "inputs_that_do_not_fit_are_refused"),
    (diagonal(ConjugateForgotten), "adjoint_satisfies_the_dot_test"),
    (diagonal(ConjugateForgotten), "adjoint_is_the_conjugate_transpose"),
    (lambda: AdjointOfTheOtherSize(values(2, 3)), "adjoint_satisfies_the_dot_test"),
    (diagonal(ConjugateOfItself), "transpose_and_conjugate_are_those_of_the_matrix"),
    (
        diagonal(SavesALazyConjugate),
        "no_result_and_no_weight_of_a_state_is_a_lazy_conjugate",
    ),
    (diagonal(NewAdjointEveryTime), "adjoint_of_the_adjoint_is_the_operator"),
    (lambda: WrongNormal(values(2, 3)), "normal_is_the_adjoint_after_the_operator"),
    (diagonal(CopiedWeight), "derived_operators_hold_the_same_tensors"),
    (
        lambda: SlicedGrid(1, (), norm="backward"),
        "tiles_make_up_the_whole_along_every_dimension_that_is_not_opaque",
    ),
    (
        lambda: SupportTooNarrow(values(2, 3)),
        "nothing_is_read_or_written_outside_of_the_supports",
    ),
    (diagonal(ShiftsNothing), "what_its_class_answers_is_true"),
    (diagonal(HasNoCentre), "what_its_class_answers_is_true"),
    (lambda: TakesNoBatch(NamedShape(("Nx",))), "what_its_class_answers_is_true"),
    (diagonal(Rewrapped), "constructors_keep_parameters_as_they_are"),
    (diagonal(SharedDictionaries), "shallow_copy_shares_tensors_and_no_dictionary"),
    (diagonal(DeepCopyThatIsShallow), "deep_copy_is_equal_and_shares_no_memory"),
    (
        diagonal(DeepCopyThatIsShallow),
        "deep_copies_of_derived_operators_are_equal_and_independent",
    ),
    (diagonal(ForgottenWhenPickled), "pickle_keeps_the_operator"),
    (diagonal(ForgottenWhenPickled), "files_keep_the_operator"),
    (diagonal(ForgottenWhenPickled), "files_are_read_back_without_running_code"),
    (diagonal(NotInTheState), "state_dict_carries_all_values"),
    (diagonal(ReprOfValues), "repr_reads_no_tensor"),
    (diagonal(KeptConjugate), "derived_operators_follow_writes_into_the_weights"),
    (diagonal(KeptConjugate), "derived_operators_follow_replaced_weights"),
    (diagonal(KeptConjugate), "derived_operators_follow_a_loaded_state"),
    (diagonal(KeptConjugate), "derived_operators_follow_an_assigned_state"),
    (diagonal(KeptConjugate), "derived_operators_follow_a_cast"),
    (
        diagonal(KeptForTheFirstWeight),
        "copies_with_other_weights_use_nothing_that_was_kept_for_the_old",
    ),
    (diagonal(KeptConjugate), "derived_operators_move_along"),
    (diagonal(KeptConjugate), "derived_operators_move_along_when_memory_is_kept_shared"),
    (diagonal(KeptPlainTensor), "derived_operators_move_along"),
    (diagonal(KeptPlainTensor), "casting_changes_the_precision_and_not_the_kind"),
    (diagonal(FixedPrecision), "casting_changes_the_precision_and_not_the_kind"),
    (diagonal(FixedPrecision), "results_have_the_precision_of_weights_and_input"),
    (diagonal(MadeWithoutADevice), "an_operator_and_its_results_are_where_its_data_are"),
    (diagonal(CopiedToTheDefaultDevice), "an_operator_and_its_results_are_where_its_data_are"),
    (diagonal(BoundToTheCpu), "derived_operators_move_along"),
    (diagonal(NoGradient), "gradients_to_the_input_are_right"),
    (
        diagonal(NoGradientToTheWeight),
        "gradients_to_input_and_weights_are_right_in_both_orders",
    ),
    (diagonal(NoGradientToTheWeight), "gradients_reach_the_parameters_themselves"),
    (
        diagonal(DifferentiatedOnce),
        "gradients_to_input_and_weights_are_right_in_both_orders",
    ),
    (diagonal(NoGradient), "the_backward_pass_is_the_adjoint"),
    (diagonal(NoGradient), "the_forward_derivative_is_the_operator"),
    (diagonal(DifferentiatedOnce), "the_forward_derivative_is_the_operator"),
    (
        diagonal(NoGradientToTheWeight),
        "the_forward_derivative_to_the_weights_is_that_of_differences",
    ),
    (diagonal(NoGradient), "the_gradient_of_the_energy_is_twice_the_normal"),
    (diagonal(NoGradient), "the_jacobian_is_the_matrix"),
    (diagonal(BranchesOnValues), "inputs_can_be_batched"),
    (diagonal(WritesIntoWhatIsNotBatched), "inputs_can_be_batched"),
    (diagonal(BranchesOnWeights), "weights_can_be_batched"),
    (diagonal(BranchesOnValues), "gradients_can_be_batched"),
    (
        diagonal(OtherValuesWithoutGradients),
        "without_gradients_values_are_the_same_and_nothing_is_recorded",
    ),
    (diagonal(NotWithinInference), "an_operator_works_within_inference"),
    (diagonal(KeptInInference), "what_is_derived_within_inference_works_outside"),
    (
        diagonal(CountsWrites),
        "an_operator_that_was_made_within_inference_works_outside",
    ),
    (diagonal(NoBfloat16), "autocast_changes_no_more_than_the_precision"),
    (diagonal(BreaksTheGraph), "it_compiles_to_one_graph"),
    (
        diagonal(OtherValuesWhenCompiled),
        "operators_can_be_built_of_it_in_a_compiled_function",
    ),
    (diagonal(FrozenIntoTheGraph), "it_compiles_to_one_graph"),
    (diagonal(BreaksTheGraphOfTheNormal), "its_backward_pass_compiles_to_one_graph"),
]


def laws_of(make: Callable[[], NamedLinop]) -> BaseNamedLinopTests:
    class Laws(BaseNamedLinopTests):
        def make_linop(self) -> NamedLinop:
            return make()

        def sizes(self) -> Mapping[str, int]:
            return {"Nx": 3, "Kx": 3}

    return Laws()


@pytest.mark.parametrize(
    ("make", "law"), BREAKERS, ids=[f"{type(make()).__name__}-{law}" for make, law in BREAKERS]
)
def test_a_wrong_operator_breaks_a_law(make: Callable[[], NamedLinop], law: str) -> None:
    with pytest.raises((AssertionError, ValueError, RuntimeError, TypeError)) as caught:
        getattr(laws_of(make), f"test_{law}")()
    message = str(caught.value)
    if isinstance(caught.value, AssertionError):  # what is compared, what it must be, what it is
        assert "must" in message and "got" in message


class Phase(SliceableLinop):
    """Multiplication by exp(i w); the derivative of its normal to w is exactly 0."""

    def __init__(self, angles: Tensor) -> None:
        super().__init__(NamedShape(("N",), weight_shape=("N",)))
        self.register_weight("weight", nn.Parameter(angles), "weight_shape")

    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return 1e3 * torch.exp(1j * linop.weight_part("weight")) * x

    @staticmethod
    def adj_fn(linop: Any, x: Tensor) -> Tensor:
        return 1e3 * torch.exp(-1j * linop.weight_part("weight")) * x


class PhaseWithAWrongNormal(Phase):
    """The derivative of its normal is not 0."""

    @staticmethod
    def adj_fn(linop: Any, x: Tensor) -> Tensor:
        return 1e3 * torch.exp(-1j * (1 + 1e-3) * linop.weight_part("weight").detach()) * x


def phase_laws(kind: Callable[[Tensor], NamedLinop]) -> BaseNamedLinopTests:
    return laws_of(lambda: kind(torch.tensor([0.3, -2.0, 1.0], dtype=torch.float64)))


DERIVATIVES = [
    law for law in dir(BaseNamedLinopTests) if re.match("test_.*(gradient|derivative|batched)", law)
]


@pytest.mark.parametrize("law", DERIVATIVES)
def test_a_derivative_may_be_exactly_zero(law: str) -> None:
    getattr(phase_laws(Phase), law)()


def test_a_derivative_that_should_be_zero_is_found() -> None:
    laws = phase_laws(PhaseWithAWrongNormal)
    with pytest.raises(
        AssertionError, match=r"the derivative of A.H\(x\) along weight must be wit"
    ):
        laws.test_the_forward_derivative_to_the_weights_is_that_of_differences()
    with pytest.raises(
        AssertionError, match=r"the gradients of A.N\(x\) to x, .*weight must be tho"
    ):
        laws.test_gradients_to_input_and_weights_are_right_in_both_orders()


def test_a_failure_says_which_operator_and_shows_both_results() -> None:
    laws, one = laws_of(diagonal(NotLinear)), torch.ones(1)
    with pytest.raises(
        AssertionError, match=r"(?s)A.H\(x\) must be within 2e-09 of.*1.*got a diff"
    ):
        laws.agree(2 * one, one, "A.H(x)", scale=1.0)
    with pytest.raises(AssertionError, match=r"A\(x\) must be shape \(1,\), got shape \(2,\)"):
        laws.agree(torch.ones(2), one, "A(x)")
    laws.agree(one, one * (1 + 1e-10), "A(x)")
    laws.agree(0 * one, 1e-8 * one, "a difference", scale=100.0)


def test_a_result_that_is_a_lazy_conjugate_breaks_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linops_core._base._calls.resolve_conj_and_neg", lambda y: y)
    laws = laws_of(diagonal(Diagonal))
    with pytest.raises(AssertionError, match=r"A.T\(x\) must be a tensor without lazy bits"):
        laws.test_no_result_and_no_weight_of_a_state_is_a_lazy_conjugate()


def test_every_law_has_an_operator_that_breaks_it() -> None:
    laws = {name for name, _ in inspect.getmembers(BaseNamedLinopTests) if name[:5] == "test_"}
    broken = {f"test_{law}" for _, law in BREAKERS}
    assert laws - broken == {"test_an_accelerator_gives_the_same_values"}  # needs one
    assert broken <= laws


def test_an_operator_of_numbers_may_be_on_the_default_device() -> None:
    laws_of(lambda: MadeOfNumbers(3)).test_an_operator_and_its_results_are_where_its_data_are()
