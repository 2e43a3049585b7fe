"""The times at which the steps of a plan would run, and a picture of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle

from ._plan import Action, Kind

# Colours of the kinds of steps, in order of appearance.
_COLOURS = ("#6baed6", "#74c476", "#fd8d3c", "#9e9ac8", "#fdd0a2", "#bdbdbd")
_LEFT, _WIDTH, _ROW, _TOP = 130, 720, 26, 26  # pixels


@dataclass(frozen=True)
class Span:
    """The times at which a step would start and end, in the unit of the given durations."""

    engine: str
    """A device, or a link between two devices. It does one thing at a time."""
    kind: str
    """The kind of step, which has its own colour."""
    label: str
    """For example the tile."""
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """When the steps of a plan would run.

    A notebook shows it as a picture.
    """

    spans: tuple[Span, ...]
    """The steps in the order of the plan."""

    @property
    def makespan(self) -> float:
        """The time at which all steps are done."""
        return max((span.end for span in self.spans), default=0.0)

    @property
    def busy(self) -> dict[str, float]:
        """The working time of each engine, in the order of their first use."""
        busy: dict[str, float] = {}
        for span in self.spans:
            busy[span.engine] = busy.get(span.engine, 0.0) + span.end - span.start
        return busy

    def to_svg(self) -> str:
        """Return the picture: a row for each engine, and a labelled bar for each step.

        Examples
        --------
        >>> Timeline(()).to_svg().startswith("<svg ")
        True
        """
        rows = {engine: _TOP + _ROW * row for row, engine in enumerate(self.busy)}
        scale = _WIDTH / (self.makespan or 1.0)
        size = f'width="{_LEFT + _WIDTH + 10}" height="{_TOP + _ROW * len(rows) + 10}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            'font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="white"/>',
        ]
        kinds = dict.fromkeys(span.kind for span in self.spans)
        colours = dict(zip(kinds, cycle(_COLOURS), strict=False))
        for position, (kind, colour) in enumerate(colours.items()):
            x = _LEFT + 90 * position
            parts.append(f'<rect x="{x}" y="4" width="12" height="12" fill="{colour}"/>')
            parts.append(f'<text x="{x + 16}" y="14">{escape(kind)}</text>')
        for engine, top in rows.items():
            parts.append(f'<text x="4" y="{top + _ROW * 0.65:.1f}">{escape(engine)}</text>')
        for span in self.spans:
            left, top = _LEFT + span.start * scale, rows[span.engine]
            width = (span.end - span.start) * scale
            title = escape(f"{span.kind} {span.label}: {span.start:g} to {span.end:g}")
            parts.append(
                f'<rect x="{left:.2f}" y="{top + 2}" width="{width:.2f}" height="{_ROW - 4}" '
                f'fill="{colours[span.kind]}" stroke="white"><title>{title}</title></rect>'
            )
            label = span.label.removeprefix("tile ")
            if width > 4 + 8 * len(label):
                parts.append(
                    f'<text x="{left + width / 2:.2f}" y="{top + _ROW * 0.65:.1f}" '
                    f'text-anchor="middle">{escape(label)}</text>'
                )
        return "\n".join([*parts, "</svg>"])

    def _repr_svg_(self) -> str:
        return self.to_svg()


def timeline(actions: Sequence[Action], base: str, durations: Mapping[Kind, float]) -> Timeline:
    """Return when each action would run.

    It starts when the action before it on its engine, and those that it waits for, are done.
    """
    free: dict[str, float] = {}
    spans: list[Span] = []
    for action in actions:
        engine = _engine(action, base)
        start = max([free.get(engine, 0.0), *(spans[number].end for number in action.after)])
        free[engine] = start + durations[action.kind]
        spans.append(Span(engine, action.kind, f"tile {action.tile}", start, free[engine]))
    return Timeline(tuple(spans))


def _engine(action: Action, base: str) -> str:
    engines = {
        Kind.SEND: f"{base} → {action.device}",
        Kind.COMPUTE: str(action.device),
        Kind.COLLECT: f"{action.device} → {base}",
        Kind.ADD: base,
    }
    return engines[action.kind]
