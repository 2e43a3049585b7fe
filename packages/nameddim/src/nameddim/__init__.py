"""Named dimensions and shapes: parse, match, resolve."""

from nameddim._common import max_shape as max_shape
from nameddim._common import resolve_wildcards as resolve_wildcards
from nameddim._dimension import ANY as ANY
from nameddim._dimension import ELLIPSES as ELLIPSES
from nameddim._dimension import AnyDim as AnyDim
from nameddim._dimension import NamedDimension as ND
from nameddim._dimension import NamedDimension as NamedDimension
from nameddim._dimension import is_any as is_any
from nameddim._dimension import is_wildcard as is_wildcard
from nameddim._matching import iscompatible as iscompatible
from nameddim._matching import isequal as isequal
from nameddim._names import K2N as K2N
from nameddim._names import N2K as N2K
from nameddim._names import get_nd_shape as get_nd_shape
from nameddim._names import partition as partition
from nameddim._parse import Dim as Dim
from nameddim._parse import as_dims as as_dims
from nameddim._shape import NamedShape as NS
from nameddim._shape import NamedShape as NamedShape

__version__ = "0.1.0"

__all__ = [
    "ANY",
    "ELLIPSES",
    "K2N",
    "N2K",
    "ND",
    "NS",
    "AnyDim",
    "Dim",
    "NamedDimension",
    "NamedShape",
    "as_dims",
    "get_nd_shape",
    "is_any",
    "is_wildcard",
    "iscompatible",
    "isequal",
    "max_shape",
    "partition",
    "resolve_wildcards",
]
