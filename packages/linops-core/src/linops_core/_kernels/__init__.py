"""Functions on tensors alone, with which operators compute.

- Arithmetic: dtypes, sums, inner products, contractions, correlations, real transforms.
- Maps along one axis of a grid: blocks, halos, extensions at borders; interpolation has a folder.
- What is known of tensors: changes, recording by autograd, transforms, the state of torch.
"""
