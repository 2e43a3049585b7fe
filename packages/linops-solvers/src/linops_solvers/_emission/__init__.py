"""Counts: emission tomography and deconvolution by expectation maximisation."""
