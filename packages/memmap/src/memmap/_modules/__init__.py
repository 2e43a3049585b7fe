"""Finding, taking apart, rebuilding and changing the tensors of modules."""
