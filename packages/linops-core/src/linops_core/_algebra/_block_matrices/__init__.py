"""Operators that consist of blocks: side by side, and the Kronecker product."""
