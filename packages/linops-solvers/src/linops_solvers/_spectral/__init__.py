"""Norms, singular values, traces and polynomials of an operator."""
