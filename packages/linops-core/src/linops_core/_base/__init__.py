"""What an operator is; nothing here imports a concrete one.

- The class of all operators, and the classes that it consists of: modules of torch, dimensions,
  calls, arithmetic, slices, conversions.
- The class of operators whose weights have named dimensions.
- What functions ask of an operator: questions and some of their answers, places of dimensions in
  compositions, sums over processes.
- What is made of an operator: copies, saved state, descriptions.
"""
