"""Reports on modules and checkpoints, and the readers of all kinds of checkpoints.

Builds on `modules` and `views`.
"""
