"""The tensors of modules and mappings: find, take apart, rebuild and change them.

Builds on `views`.
"""
