"""Reports on modules and checkpoints."""
