"""Running operators without data, for packages that make their own plans."""

from ._planning._plan_input import input_of as input_of
from ._planning._plan_trial import WORKS as WORKS
from ._planning._plan_trial import WithoutData as WithoutData

__all__ = ["WORKS", "WithoutData", "input_of"]
