"""What is raised for a file that is no checkpoint."""


class CheckpointError(ValueError):
    """A file is no checkpoint, or one that is damaged or of a kind that is not read."""
