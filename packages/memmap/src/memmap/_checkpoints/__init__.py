"""Rewriting checkpoints, and comparing them.

Builds on `copies`, `modules` and `reports`.
"""
