import pytest
import torch

from linops_core import FFT, Dense, Role
from linops_core._base._roles import membership
from nameddim import NamedShape


@pytest.mark.parametrize(
    ("dim", "role"),
    [("B", Role.BATCH), ("N", Role.INPUT), ("M", Role.OUTPUT), ("K", Role.INNER)],
)
def test_the_sides_of_a_dimension_tell_its_role(dim: str, role: Role) -> None:
    assert membership(NamedShape(("B", "N"), ("B", "M")), dim) is role


def test_the_roles_of_a_multi_coil_scanner() -> None:
    S = Dense(torch.ones(2, 3), ("C", "Nx"), ("Nz", "Nx"), ("C", "Nz", "Nx"))
    A = FFT(1) @ S
    roles = {str(dim): str(A.role(dim)) for dim in A.dims}
    assert roles == {"C": "output", "Nz": "batch", "Nx": "opaque", "Kx": "opaque"}
    normal = {str(dim): str(A.N.role(dim)) for dim in A.N.dims}
    assert normal == {"C": "inner", "Nz": "batch", "Nx": "batch"}
    assert A.role("Q") is None
