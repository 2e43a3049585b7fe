"""Finite differences along named dimensions, as sums of stencils."""
