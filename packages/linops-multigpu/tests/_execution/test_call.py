import threading

from linops_multigpu._execution._call import made_once_per_call, one_call


def test_what_is_shared_is_made_once_a_call() -> None:
    made: list[str] = []

    def make(name: str) -> list[str]:
        made.append(name)
        return [name]

    for _ in range(2):
        with one_call():
            first = made_once_per_call("a", lambda: make("a"))
            assert made_once_per_call("a", lambda: make("a")) is first == ["a"]
            assert made_once_per_call("b", lambda: make("b")) == ["b"]
    assert made == ["a", "b"] * 2


def test_a_call_inside_of_a_call_is_part_of_it() -> None:
    with one_call():
        first: object = made_once_per_call("a", list)
        with one_call():
            assert made_once_per_call("a", list) is first
        assert made_once_per_call("a", list) is first


def test_outside_of_a_call_nothing_is_made() -> None:
    assert made_once_per_call("a", list) is None
    try:
        with one_call():
            raise KeyError
    except KeyError:
        assert made_once_per_call("a", list) is None


def test_each_thread_has_its_own() -> None:
    found: list[object] = []
    with one_call():
        made_once_per_call("a", list)
        thread = threading.Thread(target=lambda: found.append(made_once_per_call("a", list)))
        thread.start()
        thread.join()
    assert found == [None]
