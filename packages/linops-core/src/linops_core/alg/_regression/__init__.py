"""Fits that are not least squares: sparse ones, robust ones, of any smooth function."""
