"""Which slices of vectors and operators each rank has, and the exchanges that follow."""
