"""Deep copies and moves of modules that keep shared memory shared.

Builds on `modules`, `reports` and `views`. The steps of a copy:

1. find: `traverse` (deep copies) or `contents_of` (moves) lists the tensors with their paths.
2. plan: `copy_plan` takes tensors apart into strided pieces, groups these by shared memory, and
   refuses tensors that cannot be copied or moved.
3. fill: `new_buffers` copies a group in chunks (`ByteSpan`, `Box`); pieces are views of chunks.
   A `Region` keeps the buffers that a larger deep copy (`CopiedStorages`) or a map (`DeviceMemory`)
   filled.
4. rebuild: `CopyPlan.assemble` makes sparse and nested tensors from the copies of their parts,
   `Counters` lets copies share version counters, `with_class_of` gives them their classes.
5. publish: a move changes all tensors in one step (`commit`), or step by step with a way back
   (`carry_out`). A copy puts the tensors into the memo, and `reconstruct` makes the new module.
"""
