"""Messages that point at a mistake in a text."""

from unicodedata import combining, east_asian_width


def pointing_at(text: str, position: int) -> str:
    """Two lines: `text`, and a caret below its character at `position`.

    Unprintable characters are shown as ``?``. Wide characters take two columns, as in a terminal.
    """
    shown = "".join(char if char.isprintable() else "?" for char in text)
    column = sum(map(_n_columns, shown[:position]))
    return f"\n    {shown}\n    {' ' * column}^"


def _n_columns(char: str) -> int:
    if combining(char):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def written(shape: tuple[str, ...]) -> str:
    """`shape` as shown in messages and reprs: ``(C, Nx, ...)``."""
    return f"({', '.join(shape)})"
