"""What all tests share: ranks in threads of this process, made once for each number of them."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from linops_distributed.testing import Ranked, ranks_in_threads

collect_ignore = ["programs"]  # they are run by test_processes.py, not imported


# Four ranks have shares of two lengths, shares without elements, and a mesh of 2 x 2. Tests of
# single facts are over two and three ranks.
IS_THOROUGH = settings.get_current_profile_name() == "thorough"


@pytest.fixture(scope="session", params=[1, 2, 3, 4] if IS_THOROUGH else [1, 4])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranked]:
    with ranks_in_threads(request.param) as result:
        yield result


@pytest.fixture(scope="session")
def two() -> Iterator[Ranked]:
    with ranks_in_threads(2) as result:
        yield result


@pytest.fixture(scope="session")
def four() -> Iterator[Ranked]:
    with ranks_in_threads(4) as result:
        yield result


@pytest.fixture(scope="session")
def three() -> Iterator[Ranked]:
    with ranks_in_threads(3) as result:
        yield result
