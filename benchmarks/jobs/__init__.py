"""Whole jobs, as users of each library write them: `problems` has their data, `by_...` the ways."""
