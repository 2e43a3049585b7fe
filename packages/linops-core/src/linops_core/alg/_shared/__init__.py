"""What all solvers share: checks, vectors and their inner products, precision, progress."""
