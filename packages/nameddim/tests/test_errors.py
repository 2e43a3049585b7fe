from nameddim._errors import pointing_at, written


def test_caret_stands_below_the_position() -> None:
    assert pointing_at("Nx Ny", 2) == "\n    Nx Ny\n      ^"


def test_what_does_not_print_takes_one_column() -> None:
    assert pointing_at("N\n\tx", 3) == "\n    N??x\n       ^"


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    assert pointing_at("名x ", 2) == "\n    名x \n       ^"
    assert pointing_at("\uff21 ", 1) == "\n    \uff21 \n      ^"
    assert pointing_at("e\u0301x", 2) == "\n    e\u0301x\n     ^"


def test_shape_is_written_without_quotes() -> None:
    assert written(("C", "...")) == "(C, ...)"
    assert written(()) == "()"
