"""Deep copies and moves of modules in which everything that shared memory still does.

One copy from start to end:

1. find: `traverse` (deep copies) or `state_tensors` (moves) lists tensors, each with its path.
2. plan: `plan_of` takes tensors apart into strided pieces and groups these by shared memory; what
   cannot be copied or moved is refused here.
3. fill: `new_buffers` copies a group in parts (`Span`, `Box`) of which each piece is a view. What
   a larger deep copy (`CopiedStorages`) or a map (`DeviceMemory`) filled is kept as a `Region`.
4. rebuild: `Plan.assemble` makes sparse and nested tensors from the copies of their parts,
   `Counters` lets copies count writes together, `dressed` gives them their classes.
5. publish: a move changes all tensors in one step (`commit`), or step after step with a way back
   (`carry_out`); a copy puts them into the memo, from which `reconstruct` makes the new module.
"""
