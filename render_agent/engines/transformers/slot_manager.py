"""Which dialogue stands in which row: those being written first, then those that wait for a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.engines.transformers.kv_cache import LayerRows, RowSlots
from render_agent.engines.transformers.sequences import Writing
from render_agent.engines.transformers.tokenization import PreparedPrompt

LEAST_SHARED = 16
"""Tokens that must be alike before they are copied rather than read."""


@dataclass(eq=False)
class Dialogue:
    """What is known of one row: whose it is, and the tokens that its keys and values stand for.

    prompt: the last that was read. ids: its tokens and those written since. writing: its reply
    under way. held: whether it must not be given up just now. room: how many tokens it must have room
    for while it is held or written. used: when it was last written, counted up.
    """

    question_id: str
    row: int
    ids: list[int]
    prompt: PreparedPrompt | None = None
    writing: Writing | None = None
    held: bool = False
    room: int = 0
    used: int = 0


class RowTable:
    """Hands out rows, and gives up idle ones where room is short.

    budget: bytes that all rows may take. most_rows: rows at the most.
    """

    def __init__(self, slots: RowSlots, budget: int, most_rows: int) -> None:
        self.slots = slots
        self.budget = budget
        self.most_rows = most_rows
        self.dialogues: list[Dialogue] = []
        self.active = 0
        self.evicted = 0
        self._uses = 0
        self._shared: tuple[list[int], list[LayerRows]] | None = None

    def of(self, question_id: str) -> Dialogue | None:
        """Return the idle row of a question, if it still has one."""
        return next((d for d in self.idle if d.question_id == question_id), None)

    @property
    def idle(self) -> Sequence[Dialogue]:
        """The rows that nothing is written in now."""
        return self.dialogues[self.active :]

    @property
    def spare(self) -> list[Dialogue]:
        """The idle rows that can be given up."""
        return [dialogue for dialogue in self.idle if not dialogue.held]

    def has_read(self, prompt: PreparedPrompt) -> bool:
        """Whether a row holds all of this very prompt."""
        return any(dialogue.prompt is prompt for dialogue in self.dialogues)

    def known(self, dialogue: Dialogue, prompt: PreparedPrompt) -> int:
        """Return how many of a prompt's tokens a row holds already: never all, never half a picture."""
        assert prompt.ids is not None
        known = common(dialogue.ids, prompt.ids[:-1])
        before = dialogue.prompt.shown if dialogue.prompt is not None else ()
        for place, picture in enumerate(prompt.shown):
            same = (
                place < len(before)
                and (before[place].file, before[place].start) == (picture.file, picture.start)
                and known >= picture.start + picture.tokens
            )
            if not same:
                return min(known, picture.start)
        return known

    def take(self, question_id: str, tokens: int) -> Dialogue | None:
        """Return a new row for a question with room for so many tokens, None where there is no room now.

        Raises what the allocator raises.
        """
        if not self.room(tokens, more=1):
            return None
        self.reserve(len(self.dialogues) + 1, tokens)
        dialogue = Dialogue(question_id, len(self.dialogues), [])
        self.dialogues.append(dialogue)
        return dialogue

    def room(self, tokens: int, more: int = 0) -> bool:
        """Whether rows of so many tokens fit, and so many more rows; idle ones are given up for it.

        The last one used goes first: questions that take turns come back in the order they had, so
        that the first ones stay to be found. One row alone may take more than the budget.
        """
        while True:
            rows = len(self.dialogues) + more
            over = self.slots.bytes_for(rows, tokens) > self.budget
            if over and self.slots.rows > max(rows, 1):
                self._shrink()
                continue
            if rows <= self.most_rows and (rows <= 1 or not over):
                return True
            if not self.spare:
                return False
            self.evict(max(self.spare, key=lambda dialogue: dialogue.used))
            self.evicted += 1

    def reserve(self, rows: int, tokens: int) -> None:
        """Make room for so many rows of so many tokens, and more where it may be had, to grow seldom.

        Raises what the allocator raises.
        """
        slots = self.slots
        more_rows = min(self.most_rows, 2 * slots.rows) if rows > slots.rows else rows
        more_tokens = slots.capacity * 5 // 4 if tokens > slots.capacity else tokens
        generous = max(rows, more_rows), max(tokens, more_tokens)
        fits = slots.bytes_for(*generous) <= self.budget
        slots.reserve(*(generous if fits else (rows, tokens)))

    def evict(self, dialogue: Dialogue) -> None:
        """Give a row up."""
        self._move(dialogue, len(self.dialogues) - 1)
        self.dialogues.pop()
        self.slots.lengths[dialogue.row] = 0

    def evict_idle(self) -> None:
        """Give up every row that can be, and what room is left over."""
        for dialogue in self.spare:
            self.evict(dialogue)
            self.evicted += 1
        self._shrink()

    def activate(self, dialogue: Dialogue) -> None:
        """Move a row to those that are written."""
        self._move(dialogue, self.active)
        self.active += 1

    def rest(self, dialogue: Dialogue) -> None:
        """Move a row from those that are written to those that wait."""
        self.active -= 1
        self._move(dialogue, self.active)
        dialogue.writing = None
        self._uses += 1
        dialogue.used = self._uses

    def share(self, dialogue: Dialogue) -> None:
        """Keep the beginning of a row, up to its first picture, for other questions that begin alike."""
        prompt = dialogue.prompt
        if self._shared is None and prompt is not None and prompt.ids is not None:
            until = prompt.shown[0].start if prompt.shown else len(prompt.ids)
            self._shared = dialogue.ids[:until], self.slots.taken(dialogue.row, until)

    def begin(self, dialogue: Dialogue, prompt: PreparedPrompt) -> None:
        """Fill a new row with as much of its prompt as is known: all of it where another sample has it."""
        assert prompt.ids is not None
        twin = next((other for other in self.dialogues if other.prompt is prompt), None)
        if twin is not None:
            self.slots.copy(twin.row, dialogue.row)
            dialogue.ids, dialogue.prompt = list(twin.ids), prompt
            return
        if self._shared is None:
            return
        ids, layers = self._shared
        until = prompt.shown[0].start if prompt.shown else len(prompt.ids)
        alike = common(ids, prompt.ids[: min(until, len(prompt.ids) - 1)])
        if alike >= LEAST_SHARED:
            self.slots.lengths[dialogue.row] = alike
            beginning = [
                LayerRows(kept.keys[:, :, :alike], kept.values[:, :, :alike]) for kept in layers
            ]
            self.slots.put(dialogue.row, 0, beginning, 0)
            dialogue.ids = ids[:alike]

    def _shrink(self) -> None:
        """Give back the room that no row needs."""
        needed = [
            dialogue.room if dialogue.held or dialogue.writing else len(dialogue.ids)
            for dialogue in self.dialogues
        ]
        self.slots.shrink(len(self.dialogues), max(needed, default=0))

    def _move(self, dialogue: Dialogue, row: int) -> None:
        """Let a row and another change places."""
        other = self.dialogues[row]
        if other is dialogue:
            return
        self.slots.swap(dialogue.row, row)
        self.dialogues[dialogue.row], self.dialogues[row] = other, dialogue
        other.row, dialogue.row = dialogue.row, row


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences have in common from their start."""
    shorter = min(len(first), len(second))
    if tuple(first[:shorter]) == tuple(second[:shorter]):
        return shorter
    return next(place for place in range(shorter) if first[place] != second[place])
