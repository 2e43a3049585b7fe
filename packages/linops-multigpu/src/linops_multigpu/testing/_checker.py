"""The happens-before checker: every access to memory comes after those that it depends on.

It looks at the order that the program asks for, not at the one that a run happens to take. So it
finds the same races under every schedule.
"""

from __future__ import annotations

from ._bytes import Bytes
from ._clock import Action, Actor, Clock, learn
from ._shadow import Conflict, Shadow


class RaceError(RuntimeError):
    """Two accesses to the same memory happen in an order that nothing decides."""


class Checker:
    """All actors, and the races between them."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.races: list[str] = []
        self.host = self.new_actor("the host")

    def new_actor(self, name: str) -> Actor:
        """Return an actor that knows nothing yet."""
        actor = Actor(len(self.actors), name)
        self.actors.append(actor)
        return actor

    def begin(self, actor: Actor, action: Action) -> int:
        """Begin something: the host asks for it, so it comes after what the host knows."""
        learn(actor.clock, self.host.clock)
        return actor.act(action)

    def read(self, actor: Actor, shadow: Shadow, touched: Bytes, place: str) -> None:
        """Let the last action of ``actor`` read."""
        self._look(actor, shadow, touched, place, actor.clock, "read", writes=False)
        shadow.note_read(touched, actor.number, len(actor.actions))

    def write(self, actor: Actor, shadow: Shadow, touched: Bytes, place: str) -> None:
        """Let the last action of ``actor`` write."""
        self._look(actor, shadow, touched, place, actor.clock, "write", writes=True)
        shadow.note_write(touched, actor.number, len(actor.actions))

    def free(self, actor: Actor, shadow: Shadow, clock: Clock, place: str) -> None:
        """Let the last action of ``actor`` free all memory, after what ``clock`` knows."""
        everything = slice(None)
        self._look(actor, shadow, everything, place, clock, "free", writes=True)

    def report(self, message: str) -> None:
        """Count something as a race."""
        self.races.append(message)

    def _look(
        self,
        actor: Actor,
        shadow: Shadow,
        touched: Bytes,
        place: str,
        clock: Clock,
        verb: str,
        *,
        writes: bool,
    ) -> None:
        found = shadow.conflict(touched, clock, writes=writes)
        if found is not None:
            self.report(self._message(actor, found, place, verb))

    def _message(self, actor: Actor, found: Conflict, place: str, verb: str) -> str:
        other = self.actors[found.actor]
        return (
            f"{place}: the {verb} of {found.nbytes} bytes by {actor.name} in {actor.actions[-1]} "
            f"must come after the {'write' if found.wrote else 'read'} by {other.name} in "
            f"{other.actions[found.time - 1]}, but nothing orders them"
        )
