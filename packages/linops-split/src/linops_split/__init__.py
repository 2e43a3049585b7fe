"""Cutting a linear operator into tiles, and putting the tiles together again."""

from linops_core import SplitError as SplitError

from ._assemble import assemble as assemble
from ._batch import batch_linop as batch_linop
from ._fuzzy import fuzzy_broadcast_to as fuzzy_broadcast_to
from ._narrowed import narrowed as narrowed
from ._planning._plan import BatchPlan as BatchPlan
from ._planning._plan import plan_batches as plan_batches
from ._split import Tile as Tile
from ._split import split_linop as split_linop
from ._split import tile_grid as tile_grid
from ._split import tile_lengths as tile_lengths
from ._tiled import Tiled as Tiled
from ._tiles import Part as Part
from ._tiles import Tiles as Tiles

__version__ = "0.1.0"

__all__ = [
    "BatchPlan",
    "Part",
    "SplitError",
    "Tile",
    "Tiled",
    "Tiles",
    "assemble",
    "batch_linop",
    "fuzzy_broadcast_to",
    "narrowed",
    "plan_batches",
    "split_linop",
    "tile_grid",
    "tile_lengths",
]
