"""Progress of a run in one line: counts, score so far, speed and remaining time."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence

import numpy as np

from render_agent.dialogue.state import QuestionState, Status
from render_agent.dialogue.turn import Evidence, Phase, Turn
from render_agent.runs.cost.billing import UNPRICED, Billing
from render_agent.runs.log.caveats import event_caveat, is_unreadable, unreadable_caveat
from render_agent.runs.log.row import scored_answers
from render_agent.score.intervals import macro_estimate
from render_agent.score.means import MACRO, tally_scores
from render_agent.util.display import Display, count_noun, format_duration

LINE_SECONDS, SCORE_SECONDS = 0.2, 5.0  # time between updates of the line and of the score

MIN_UNREADABLE = 3  # unreadable replies before a warning that most are unreadable

MAX_SCAN_NOTES = 10  # maximum number of different notes about scans that are shown

RECENT_TURNS = 256  # turns over which speed is measured

KNOWN_SHARE = 0.05  # fraction of the turns after which the remaining time is shown


class Progress:
    """Observer that shows the progress of a run on a display."""

    def __init__(
        self,
        states: Sequence[QuestionState],
        display: Display,
        *,
        max_batched_turns: int,
        billing: Billing = UNPRICED,
    ) -> None:
        self.states = list(states)
        self.display = display
        self.max_batched_turns = max_batched_turns
        self.billing = billing
        self.cost = billing.total(self.states) or 0.0
        self.place = ""
        self.num_turns = self.tokens = self.unreadable = 0
        self._warned: set[str] = set()
        self._scan_notes: set[str] = set()
        self._started_at = 0.0
        self._recent: deque[float] = deque(maxlen=RECENT_TURNS)
        finished = [state for state in self.states if not state.active]
        self._scored = scored_answers(finished)
        self._score = ""
        self._score_due = self._line_due = 0.0

    def on_phase_start(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        if not self._recent:
            self._started_at = time.monotonic()
            self._recent.append(self._started_at)
        if phase == "batched":
            turn = min(len(state.turns) for state in states) + 1
            self.place = f"batched turn {turn} of {self.max_batched_turns}"
            self.display.note(f"{self.place}: {count_noun(len(states), 'question')}")
        else:
            self.place = "finishing"
            number = count_noun(len(states), "unfinished question")
            self.display.note(f"continuing {number} independently")

    def on_turn(self, state: QuestionState, turn: Turn) -> None:
        self.tokens += turn.tokens.reply
        self.cost += self.billing.cost_of_turn(turn)
        self.num_turns += 1
        self._recent.append(time.monotonic())
        self.display.detail(turn_summary(state, turn))
        self._warn_about(turn)
        self._note_scan(state, turn)
        if not state.active:
            self._scored += scored_answers([state])
        if (now := time.monotonic()) >= self._line_due:
            self._line_due = now + LINE_SECONDS
            self.display.update(self.line)

    def _warn_about(self, turn: Turn) -> None:
        """Warn once per kind of caveat, and if most replies are unreadable."""
        for event in turn.events:
            if event not in self._warned and (caveat := event_caveat(event)):
                self._warned.add(event)
                self.display.warn(caveat)
        self.unreadable += is_unreadable(turn)
        are_most = self.unreadable >= MIN_UNREADABLE and 2 * self.unreadable > self.num_turns
        if are_most and "unreadable" not in self._warned:
            turns = [turn for state in self.states for turn in state.turns]
            if caveat := unreadable_caveat(turns):
                self._warned.add("unreadable")
                self.display.warn(caveat)

    def _note_scan(self, state: QuestionState, turn: Turn) -> None:
        """Show each different note about the scan of a first turn once, such as that the start was moved."""
        for note in turn.scan[1:]:  # the first entry describes the scan
            if note in self._scan_notes:
                continue
            self._scan_notes.add(note)
            if len(self._scan_notes) <= MAX_SCAN_NOTES:
                self.display.note(f"scan {state.question.scene}: {note}")
            elif len(self._scan_notes) == MAX_SCAN_NOTES + 1:
                self.display.note("more notes about scans are in the report")

    def on_failure(self, state: QuestionState) -> None:
        self.display.warn(f"question {state.id} failed: {state.error}")

    @property
    def line(self) -> str:
        """The progress in one line, most important parts first, because narrow terminals truncate it."""
        statuses = Counter(state.status for state in self.states)
        num_failed, remaining = statuses[Status.FAILED], self.remaining_seconds()
        seconds = max(time.monotonic() - self._started_at, 1.0)
        parts = [
            f"{len(self.states) - statuses[Status.ACTIVE]}/{count_noun(len(self.states), 'question')}",
            f"{num_failed} failed" if num_failed else "",
            "" if remaining is None else f"about {format_duration(remaining)} left",
            self._score_so_far(),
            self.place,
            count_noun(self.num_turns, "turn"),
            f"{self.tokens / seconds:.0f} tok/s" if self.tokens else "",
            f"${self.cost:.2f}" if self.cost else "",
        ]
        return " · ".join(filter(None, parts))

    def remaining_seconds(self) -> float | None:
        """Estimate the remaining time from the recent speed; None during the first 5 % of the run."""
        num_turns = sum(len(state.turns) for state in self.states)
        turns = remaining_turns(self.states)
        seconds = self._recent[-1] - self._recent[0] if self._recent else 0.0
        if not turns or not seconds or num_turns < KNOWN_SHARE * (num_turns + turns):
            return None
        return turns * seconds / (len(self._recent) - 1)

    def _score_so_far(self) -> str:
        """Return the score so far and the half-width of its interval."""
        if (now := time.monotonic()) >= self._score_due:
            self._score_due = now + SCORE_SECONDS
            answers = tally_scores(self._scored)
            if len(answers.sums):
                low, high = macro_estimate(answers).score_interval
                half_width = "" if np.isnan(low) else f"±{50 * float(high - low):.0f}"
                self._score = f"score {100 * answers.means[MACRO]:.0f}{half_width}"
        return self._score


def remaining_turns(states: Sequence[QuestionState]) -> float:
    """Estimate the number of remaining turns.

    The expected length of a dialogue is the number of turns so far per finished question, which is the mean for a
    constant probability of finishing and accounts for active dialogues.
    """
    active = [state for state in states if state.active]
    num_finished = len(states) - len(active)
    mean = (
        sum(len(state.turns) for state in states) / num_finished if num_finished else float("inf")
    )
    return sum(min(mean, state.max_turns - len(state.turns)) for state in active)


def turn_summary(state: QuestionState, turn: Turn) -> str:
    """Describe a turn of a question in one line."""
    choice = f" ({choice_summary(turn.evidence)})" if turn.evidence else ""
    return f"{state.id} turn {turn.number}: {turn.feedback}{choice}"


def choice_summary(evidence: Evidence) -> str:
    """Describe briefly how the move of a turn was chosen."""
    number = evidence.candidates[evidence.chosen].number
    summary = f"chose candidate {number + 1} of {len(evidence.candidates)}"
    if (ballot := evidence.ballot) is not None:
        return f"{summary}, {100 * ballot.agreement:.0f} % agree on {ballot.winner}"
    fused_score = dict(zip(evidence.weighed, evidence.fused, strict=False)).get(number)
    return summary if fused_score is None else f"{summary}, score {fused_score:.2f}"
