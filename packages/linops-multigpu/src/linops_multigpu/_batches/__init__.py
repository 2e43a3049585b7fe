"""Which tile is computed where: batch sizes, devices, and the operator made of them."""
