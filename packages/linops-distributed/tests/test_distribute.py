"""Random operators over ranks, against their matrices: values, derived operators, gradients."""

from hypothesis import given, settings
from hypothesis import strategies as st

from linops_distributed import plan_mesh
from linops_distributed.testing import Ranked
from linops_distributed.testing.strategies import cases, check_gradients, check_plan, check_values

few = settings(max_examples=settings().max_examples // 4)  # over one rank, two, three and four


@few
@given(st.data())
def test_it_is_its_matrix(ranks: Ranked, data: st.DataObject) -> None:
    case = data.draw(cases(ranks.n_ranks))
    ranks.run(lambda rank: check_values(case, ranks.mesh(**case.mesh)))


@few
@given(st.data())
def test_gradients_are_those_of_one_process(ranks: Ranked, data: st.DataObject) -> None:
    case = data.draw(cases(ranks.n_ranks))
    ranks.run(lambda rank: check_gradients(case, ranks.mesh(**case.mesh)))


@few  # each is run without data, and with data for what is sent
@given(st.data())
def test_a_plan_is_what_is_sent(ranks: Ranked, data: st.DataObject) -> None:
    case = data.draw(cases(ranks.n_ranks))
    ranks.run(lambda rank: check_plan(case, ranks.mesh(**case.mesh)))


@few
@given(st.data())
def test_a_mesh_is_planned_without_it(ranks: Ranked, data: st.DataObject) -> None:
    case = data.draw(cases(ranks.n_ranks))
    options = {"ordered": case.ordered, "like": case.input}
    planned = plan_mesh(case.known.linop, case.mesh, case.placement, **options)  # type: ignore[arg-type]

    def program(rank: int) -> None:
        A = case.made(ranks.mesh(**case.mesh))
        plan = A.plan(like=A.local_input(case.input)).of_rank(rank)
        for work in planned.works:
            assert planned.of_rank(rank).sent(work) == plan.sent(work)

    ranks.run(program)
