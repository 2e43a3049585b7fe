"""Rewriting checkpoints, and comparing them.

Builds on `_copies`, `_modules` and `_reports`.
"""
