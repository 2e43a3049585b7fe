"""Operators that consist of blocks: side by side along a dimension, stacks, Kronecker products.

Nothing else in the folder of compositions imports them: they use operators that are none.
"""
