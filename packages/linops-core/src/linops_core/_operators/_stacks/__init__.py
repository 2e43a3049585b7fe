"""Operators side by side: along a dimension, a new one, or one that is made of all others."""
