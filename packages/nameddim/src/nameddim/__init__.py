"""Named dimensions and the shapes made of them: parse, match, resolve."""

from nameddim._dimension import ANY as ANY
from nameddim._dimension import ELLIPSES as ELLIPSES
from nameddim._dimension import AnyDim as AnyDim
from nameddim._dimension import NamedDimension as ND
from nameddim._dimension import NamedDimension as NamedDimension
from nameddim._dimension import is_any as is_any
from nameddim._parse import Dim as Dim
from nameddim._shape import NamedShape as NS
from nameddim._shape import NamedShape as NamedShape

__all__ = [
    "ANY",
    "ELLIPSES",
    "ND",
    "NS",
    "AnyDim",
    "Dim",
    "NamedDimension",
    "NamedShape",
    "is_any",
]
