"""Operators of magnetic resonance: off-resonance and motion."""
