"""What a function asks an operator, and the class of your own operator can answer.

A question is a function of an operator, with an answer that is right for every operator: False,
none, or not known. A class that knows more registers its answer, and composed operators then take
less time or memory. Wrong answers give wrong results: ``BaseNamedLinopTests`` checks them.
"""

from ._algebra._shifted import shift_axes as shift_axes
from ._algebra._slice_by_slice import gains_by_slices as gains_by_slices
from ._base._grid_questions import without_fftshift as without_fftshift
from ._base._question import Question as Question

__all__ = ["Question", "gains_by_slices", "shift_axes", "without_fftshift"]
