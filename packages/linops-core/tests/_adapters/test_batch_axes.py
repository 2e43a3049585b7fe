import torch

from linops_core import FFT, Chain, Dense, Diagonal, Identity, NamedLinop
from linops_core._adapters._arrays import batch_axes
from nameddim import NamedShape


class Opaque(NamedLinop):
    """An operator that takes any shape, and may mix all of it."""

    fn = staticmethod(lambda linop, x: x.flip(0))
    adj_fn = fn


def test_a_batch_goes_where_the_ellipsis_is() -> None:
    A = FFT(1)
    assert batch_axes(A) == batch_axes(A.H) == batch_axes(A.N) == (0, 0)
    between = Dense(torch.ones(2, 3), ("M", "N"), ("N", "..."), ("...", "M"))
    assert batch_axes(between) == (1, 0)
    assert batch_axes(between.H) == (0, 1)


def test_there_is_none_without_an_ellipsis_on_both_sides() -> None:
    assert batch_axes(FFT(1, ("C",))) is None
    assert batch_axes(Dense(torch.ones(2, 3))) is None


def test_there_is_none_in_an_operator_that_does_not_say_what_it_does_with_it() -> None:
    A = Opaque(NamedShape(("...", "N")))
    assert batch_axes(A) is None
    D = Diagonal(torch.ones(2), ("...", "N"))
    assert batch_axes(D) == (0, 0)
    assert batch_axes(Chain(D, A)) is None
    assert batch_axes(Identity()) == (0, 0)
