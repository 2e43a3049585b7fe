"""Distribution of an operator over the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from re import sub
from typing import cast

from torch.distributed.device_mesh import DeviceMesh

from linops_core import NamedLinop, Role, SplitError
from linops_core.siblings import check_flags, submodules_of
from linops_multigpu import BatchSpec, create_batched_linop
from nameddim import ND, NamedDimension

from ._operators._distributed import DistributedLinop
from ._operators._distributed_tile import DistributedTile
from ._operators._exchange import Exchange
from ._operators._halo_exchange import HaloExchange
from ._operators._rank_copies import mesh_dims_of_weights
from ._operators._steps import in_steps
from ._ranks._mesh import RankMesh
from ._ranks._transport import Transport
from ._shares._route import Move, gain_of
from ._shares._sharding import Sharding
from ._shares._share import Share, sharding_for
from ._shares._sources import Source, shares_of_all, shares_of_functions, shares_of_one

_NAME = "distribute_linop"
_SERIALS = count()  # numbers of operators; those of the first rank of the mesh are used


def distribute_linop(
    linop: Source | Sequence[Source] | None,
    mesh: DeviceMesh,
    placement: Mapping[str, str] | Mapping[NamedDimension, str],
    *,
    batch_specs: BatchSpec | Sequence[BatchSpec] | None = None,
    ordered: bool = False,
    sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None = None,
    scatter_from: int | None = None,
) -> DistributedLinop:
    """Return a distributed operator: each rank of a mesh computes its share.

    ``placement`` maps dimensions to dimensions of the mesh. A placed dimension is cut into shares
    like those of ``torch.chunk``: the last ones may be shorter, or empty. Vectors that have the
    dimension are sharded. If only the input has it, or neither side, each rank has a partial sum,
    and the output is summed over that dimension of the mesh. If only the output has it, the adjoint
    is summed. Other dimensions are replicated.

    The grid of an FFT or a DCT can be cut, too: along one dimension of its input, and along another
    one of its output, which is placed on the same dimension of the mesh. Ranks exchange data
    between the transforms of single dimensions.

    Every rank must call it. If all ranks have the operator, nothing is copied: shares are views.

    Parameters
    ----------
    linop : NamedLinop, function, sequence of them, or None
        The same operator on all ranks. Or, with ``scatter_from``, the operator on one rank and None
        on the others. Or a function that gets a slice of each placed dimension and returns that
        tile of the operator; then a rank holds only its share. Or a sequence of such functions and
        of operators that all ranks have: their composition, the first one is applied first.
    mesh : DeviceMesh
        Its dimensions must have names.
    placement : mapping of dimension to str
        The dimensions to cut, each with a dimension of the mesh. Two dimensions may share a
        dimension of the mesh if no vector has both. If only one grid of a transform is placed, a
        dimension of the other grid is chosen: the first free one that is not cut in the first grid.
    batch_specs : BatchSpec or sequence of BatchSpec, optional
        Cuts the share of each rank into tiles, see :func:`linops_multigpu.create_batched_linop`.
    ordered : bool
        Whether to sum in the order of the ranks, which gives the same bits for the same shares.
        With gloo, such a sum took 1.6 to 1.9 times as long.
    sizes : mapping of dimension to int, optional
        Sizes that the operator does not know, such as the batch of an FFT. If a function makes the
        shares: sizes of all placed dimensions.
    scatter_from : int, optional
        The rank that has the operator. It sends each rank the bytes of its share, one tensor at a
        time, and keeps a copy of its own share. Weights that are sent, or made by a function, are
        trained as weights of the share: see ``A.parameters()`` and ``A.buffers()``. The gradient of
        a weight that is not cut is summed over the ranks that have copies of it.

    Raises
    ------
    TypeError
        If an argument has a wrong type.
    SplitError
        If the operator does not have the dimension, cannot be cut along it, or does not know its
        length. No rank has communicated then, and the message is the same on all ranks. Also, on
        all ranks, if ``batch_specs`` cannot cut the share of one of them.
    ValueError
        If the mesh has no names or lacks a dimension, or its ranks do not ascend; if two dimensions
        of a vector are placed on the same dimension of the mesh; or if operator, placement or sizes
        differ between ranks.
    NotImplementedError
        If weights that are sent or loaded require gradients, and it is not known which of them are
        copies of each other, or some ranks have no work.
    RuntimeError
        If a rank does not answer before the timeout of the process group.

    Examples
    --------
    On the ranks that ``torchrun --nproc-per-node 4 script.py`` starts::

        mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("coils",))
        A = distribute_linop(F @ S, mesh, {"C": "coils"})
        y = A(image)  # k-space of the coils of this rank
        x = A.H(y)  # the image, summed over coils, on every rank
    """
    check_flags("distribute_linop", ordered=ordered)
    ranks = _ranks_of(mesh, ordered)
    pairs = checked_placement(placement, ranks)
    specs = _checked_specs(batch_specs)
    lengths = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
    return over_ranks(ranks, linop, pairs, specs, lengths, scatter_from)


def over_ranks(
    ranks: Transport,
    linop: Source | Sequence[Source] | None,
    pairs: Mapping[NamedDimension, str],
    specs: Sequence[BatchSpec],
    sizes: Mapping[NamedDimension, int],
    scatter_from: int | None = None,
) -> DistributedLinop:
    """Return the operator over ranks, given checked arguments."""
    facts: list[object] = []
    if scatter_from is not None:
        if scatter_from not in ranks.mesh.numbers:
            raise ValueError(
                f"{_NAME}: scatter_from must be a rank of the mesh, one of "
                f"{[*ranks.mesh.numbers]}, got {scatter_from!r}"
            )
        plan, steps = shares_of_one(linop, scatter_from, ranks, pairs, sizes, _NAME)
    elif isinstance(linop, NamedLinop):
        plan, steps = shares_of_all(linop, ranks, pairs, sizes)
        facts = _signature(linop)
    else:
        sources = _checked_sources(linop)
        plan, steps = shares_of_functions(sources, ranks, pairs, sizes, _NAME)
        facts = [_signature(source) for source in sources if isinstance(source, NamedLinop)]
    lengths = [step.sharding.cuts if isinstance(step, Share) else step for step in steps]
    options = sizes, ranks.ordered, [dict(spec.batch_sizes) for spec in specs]
    what, owner = "operator and placement", f"{_NAME}: {plan.whole.signature}"
    gathered = ranks.all_gather(
        (next(_SERIALS), (plan.whole.shape, facts, pairs, lengths, *options)), _NAME, what
    )
    ranks.check_same([one for _, one in gathered], owner, what)
    ranks.order.serial = gathered[0][0]
    linops = [
        _tile(step, ranks, _specs_for(step, specs, len(steps) == 1), plan.lengths)
        if isinstance(step, Share)
        else _exchange(step, ranks, plan.lengths)
        for step in steps
    ]
    _check_batch_dims(steps, specs)
    result = in_steps(linops, ranks)
    return (
        cast(DistributedLinop, result.as_endomorphism()) if plan.whole.is_endomorphism else result
    )


def _tile(
    share: Share, ranks: Transport, specs: Sequence[BatchSpec], sizes: Mapping[NamedDimension, int]
) -> DistributedTile:
    """Return the operator of which each rank computes a share."""
    sharding, tile = share.sharding, share.tile
    refused: str | None = None  # on one rank, an error that all ranks raise
    if specs and not sharding.is_empty:
        try:
            tile = create_batched_linop(tile, specs, sizes=_sizes_inside(tile, sizes, sharding))
        except Exception as error:
            refused = f"{type(error).__name__}: {error}"
    dims = share.whole.dims - sharding.cuts.keys()
    given = {dim: size for dim, size in sizes.items() if dim in dims}
    is_complex_linear = share.whole.is_complex_linear and share.tile.is_complex_linear
    what = "whether it is linear over complex numbers"  # a rank without work does not know
    owner = f"{_NAME}: {share.whole.signature}"
    gathered = ranks.all_gather((is_complex_linear, refused), owner, what)
    for number, (_, why) in zip(ranks.mesh.numbers, gathered, strict=True):
        if why is not None:
            raise SplitError(
                f"{owner}: batch_specs must cut the share of each rank, got on rank {number} {why}"
            )
    sums: Sequence[tuple[str, ...]] = ()
    if share.has_own_weights:
        sums = mesh_dims_of_weights(share.source, sharding, ranks, owner)
    return DistributedTile(
        tile,
        share.whole.shape,
        sharding,
        ranks,
        share.source,
        share.structure,
        given,
        gain_of(share.whole.flatten(), sizes),
        all(is_linear for is_linear, _ in gathered),
        sums,
    )


def _exchange(move: Move, ranks: Transport, lengths: Mapping[NamedDimension, int]) -> Exchange:
    before = sharding_for(ranks, move.before, lengths, move.reads_before)
    after = sharding_for(ranks, move.after, lengths, move.reads_after)
    kind = HaloExchange if move.before == move.after else Exchange
    return kind(move.names, before, after, ranks)


def _specs_for(share: Share, specs: Sequence[BatchSpec], is_all: bool) -> Sequence[BatchSpec]:
    """Return the specs of a part, restricted to the dimensions along which it can be cut."""
    if is_all:
        return specs
    result = []
    for spec in specs:
        sizes = {dim: size for dim, size in spec.batch_sizes.items() if _is_cut_by(share, dim)}
        if sizes:
            result.append(replace(spec, batch_sizes=sizes))
    return result


def _is_cut_by(share: Share, dim: NamedDimension) -> bool:
    return dim in share.whole.dims and share.whole.role(dim) is not Role.OPAQUE


def _check_batch_dims(steps: Sequence[Share | Move], specs: Sequence[BatchSpec]) -> None:
    for dim in {dim for spec in specs for dim in spec.batch_sizes}:
        if len(steps) > 1 and not any(isinstance(s, Share) and _is_cut_by(s, dim) for s in steps):
            raise SplitError(
                f"{_NAME}: batch_specs must name dimensions along which a step of the operator can "
                f"be cut, got {dim}"
            )


def _ranks_of(mesh: DeviceMesh, ordered: bool) -> Transport:
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"{_NAME}: mesh must be a DeviceMesh, got {type(mesh)}")
    if not mesh.mesh_dim_names:
        raise ValueError(
            f"{_NAME}: the dimensions of the mesh must have names, got {mesh}; give "
            "mesh_dim_names to init_device_mesh"
        )
    if any((mesh.mesh.diff(dim=axis) < 0).any() for axis in range(mesh.ndim)):
        raise ValueError(
            f"{_NAME}: ranks must ascend along each dimension of the mesh, because they do in its "
            f"process groups, got {mesh.mesh.tolist()}; sort them"
        )
    if mesh.get_coordinate() is None:
        raise ValueError(f"{_NAME}: this rank must be in the mesh, got {mesh}")
    return Transport(RankMesh.of(mesh), ordered)


def checked_placement(
    placement: Mapping[str, str] | Mapping[NamedDimension, str], ranks: Transport
) -> dict[NamedDimension, str]:
    """Return the placement by dimensions; refuse dimensions that the mesh lacks."""
    if not isinstance(placement, Mapping):
        raise TypeError(
            f"{_NAME}: placement must be a mapping of dimension to dimension of the mesh, "
            f"got {placement!r}"
        )
    pairs = {ND.infer(dim): name for dim, name in placement.items()}
    for dim, name in pairs.items():
        if name not in ranks.mesh.names:
            raise ValueError(
                f"{_NAME}: {dim} must be placed on one of the dimensions {ranks.mesh.names} of the "
                f"mesh, got {name!r}"
            )
    return pairs


def _checked_sources(linop: object) -> Sequence[Source]:
    sources = [*linop] if isinstance(linop, Sequence) and linop else [cast(Source, linop)]
    for source in sources:
        if not isinstance(source, NamedLinop) and not callable(source):
            raise TypeError(
                f"{_NAME}: linop must be a NamedLinop, a function that makes shares, or a sequence "
                f"of them, got {type(source)}"
            )
    return sources


def _checked_specs(specs: BatchSpec | Sequence[BatchSpec] | None) -> list[BatchSpec]:
    result = list(specs) if isinstance(specs, Sequence) else [specs] if specs is not None else []
    for spec in result:
        if not isinstance(spec, BatchSpec):
            raise TypeError(f"{_NAME}: batch_specs must be BatchSpecs, got {type(spec)}")
    return result


def _signature(linop: NamedLinop) -> list[object]:
    """Return everything that must be equal on all ranks: operators, sizes, dtypes, options."""
    signature: list[object] = []
    for module in submodules_of(linop):
        if isinstance(module, NamedLinop):
            tensors = {**module._parameters, **module._buffers}
            weights = [
                (name, tuple(t.shape), str(t.dtype), t.requires_grad)
                for name, t in tensors.items()
                if t is not None
            ]
            options = [
                # Text without addresses, because axes of users may be of any class.
                (name, sub(" at 0x[0-9a-f]+", "", str(value)))
                for name, value in sorted(vars(module).items())
                if (isinstance(value, (str, int, float, complex)) and name != "_has_relatives")
                or name == "_axes"  # such as the distance of a Roll
            ]
            sizes = module.sizes("input"), module.sizes("output")
            signature.append((type(module).__name__, module.signature, sizes, weights, options))
    return signature


def _sizes_inside(
    tile: NamedLinop, sizes: Mapping[NamedDimension, int], sharding: Sharding
) -> dict[NamedDimension, int]:
    lengths = {**sizes, **sharding.lengths}
    return {
        dim: size for dim, size in lengths.items() if dim in tile.dims and tile.size(dim) is None
    }
