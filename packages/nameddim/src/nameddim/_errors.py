"""Messages that point at the place of a mistake."""


def pointing_at(text: str, position: int) -> str:
    """Two lines that show `text` and, below it, a caret at `position`.

    Characters that do not print are shown as ``?``, so that the caret stays in its column.
    """
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return f"\n    {shown}\n    {' ' * position}^"


def written(shape: tuple[str, ...]) -> str:
    """`shape` as it is shown in messages and reprs: ``(C, Nx, ...)``."""
    return f"({', '.join(shape)})"
