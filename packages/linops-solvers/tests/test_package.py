import types

import linops_solvers


def test_all_public_names_are_there_and_no_others() -> None:
    public = {
        name
        for name, value in vars(linops_solvers).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(linops_solvers.__all__)
