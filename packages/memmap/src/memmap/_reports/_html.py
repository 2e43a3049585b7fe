"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

from ._table import printable

# The colours fit light and dark pages.
_LINE = "border-bottom:1px solid rgba(128,128,128,.4)"
_CELL = "padding:2px 10px;vertical-align:top;background:transparent"


def html_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    right: Collection[str] = (),
) -> str:
    """Return an HTML table, for the ``_repr_html_`` of an object; all text is escaped.

    The table has only inline styles and uses the colours of the page.

    Parameters
    ----------
    columns : sequence of str
        The column headings.
    rows : iterable of sequences of str
        One text for each column. Leading spaces indent the text.
    caption : str, optional
        Text above the table.
    right : collection of str
        Headings of the columns that are aligned right, as for numbers.

    Examples
    --------
    >>> html_table(["name"], [["<b>"]]).count("&lt;b&gt;")
    1
    """
    sides = ["right" if name in right else "left" for name in columns]

    def row(tag: str, texts: Sequence[str], style: str = "") -> str:
        pairs = zip(texts, sides, strict=True)
        cells = (_cell(tag, text, f"text-align:{side};{style}") for text, side in pairs)
        return f"<tr>{''.join(cells)}</tr>"

    above = f'<div style="padding:2px 10px">{_escaped(caption)}</div>' if caption else ""
    head = row("th", columns, f"{_LINE};font-weight:bold;")
    body = "".join(row("td", texts) for texts in rows)
    return (
        '<div style="overflow-x:auto;font-size:90%">'
        f'{above}<table style="border-collapse:collapse;border:0;margin:0">'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _cell(tag: str, text: str, style: str) -> str:
    indent = len(text) - len(text.lstrip(" "))
    inner = f'<span style="padding-left:{indent * 0.6:.1f}em">{_escaped(text.strip())}</span>'
    return f'<{tag} style="{_CELL};{style}">{inner if indent else _escaped(text)}</{tag}>'


def _escaped(text: str) -> str:
    return escape(printable(text))
