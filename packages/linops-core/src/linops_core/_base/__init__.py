"""The base of operators: calls, slices, copies, arithmetic. It imports no concrete operator."""
