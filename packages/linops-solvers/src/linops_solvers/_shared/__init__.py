"""Shared by all solvers: checks, vectors and their inner products, precision, progress."""
