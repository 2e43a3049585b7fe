"""Linear systems and least squares, from products with A alone."""
