"""Policies that answer probes from their views, with at most one known fault, for tests of the diagnosis.

`believer` reports what `witness` has seen. The others answer wrongly: `forgetful` loses objects from its map,
`misperceiver` puts objects in the wrong place, and `misreasoner` answers wrongly despite a correct map.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from factories.runs import MAPPER, finish_run
from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.engines.scripted import ScriptedEngine
from render_agent.options import RunConfig
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.diagnosis.model import Cause
from render_agent.report.diagnosis.summary import summarize_diagnoses
from render_agent.runs.build import build
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.tasks.question_types import type_of
from render_agent.util.numbers import is_number
from render_agent_lab.oracles.question_visibility import QuestionVisibility
from render_agent_lab.oracles.sighted_oracle import SightedOracle, shown_facts

# Offset in x and y of objects in the misperceiver's map.
SHIFT_METRES = (2.5, -3.0)

# Factor by which the misperceiver overestimates lengths and areas; such answers score 0.
SIZE_FACTOR = 3.0


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault of a believer: it forgets, misperceives or misreasons; none if all are False."""

    forgets: bool = False
    misperceives: bool = False
    misreasons: bool = False

    @property
    def any(self) -> bool:
        """True if the answers are wrong."""
        return self.forgets or self.misperceives or self.misreasons


class Believer:
    """Explores and answers like `witness`, with panoramas, and reports the clearly visible objects as beliefs.

    A forgetful one requests the map once more after it has seen all named objects, and then knows nothing.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        seed: int,
        # visibility of objects; None if no images, or other images, are shown
        eyes: QuestionVisibility | None,
        *,
        walks: bool,
        fault: Fault,
    ) -> None:
        self.questions = {question.id: question for question in questions}
        self.eyes = eyes
        self.fault = fault
        self._witness = SightedOracle(questions, seed, eyes, walks=walks)
        self._since: dict[str, int] = {}

    def reply(self, request: Request) -> str:
        """Return the next step, or the final answer, which is wrong if there is a fault."""
        question = self.questions[request.question_id]
        reply = self._witness.reply(request)
        fields = json.loads(reply)
        if "answer" not in fields:
            return json.dumps(fields | {"view": "around"})
        if self.fault.forgets and self._knows_all(question, request) and not request.is_last_turn:
            since = self._since.setdefault(question.id, request.turn)
            if since == request.turn:
                return json.dumps(
                    {"reasoning": "I have seen it, and look at the map.", "view": "top"}
                )
        if self.fault.any:
            fields["answer"] = wrong_answer(question, fields["answer"])
        return json.dumps(fields)

    def believe(self, request: Request) -> str:
        """Return the requested parts of the witness's belief, with the fault."""
        question, probe = self.questions[request.question_id], request.probe
        assert probe is not None
        belief = self._witness.belief(request)
        if request.turn > self._since.get(question.id, request.turn):
            for entry in belief["counts"]:
                entry["count"] = 0
            belief |= {"objects": []}
            belief.pop("floor_square_meters", None)
        if self.fault.misperceives:
            for thing in belief["objects"]:
                x, y = thing["position"]
                thing["position"] = [x + SHIFT_METRES[0], y + SHIFT_METRES[1]]
                thing["length_meters"] *= SIZE_FACTOR
            if "floor_square_meters" in belief:
                belief["floor_square_meters"] *= SIZE_FACTOR
        return json.dumps({key: belief[key] for key in probe.keys if key in belief})

    def _knows_all(self, question: Question, request: Request) -> bool:
        if self.eyes is None:
            return False
        return bool(shown_facts(self.eyes, question, request.views).shown)

    def close(self) -> None:
        """Release the renderer."""
        self._witness.close()


def wrong_answer(question: Question, answer: str) -> str:
    """Return an answer that scores 0 and differs from `answer`."""
    avoided = {answer, question.ground_truth}
    if question.options:
        letters = options_by_letter(question.options)
        return next((letter for letter in letters if letter not in avoided), answer)
    largest = max((float(text) for text in avoided if text and is_number(text)), default=1.0)
    return f"{10 * max(largest, 1.0):.0f}"


def believer(
    questions: Sequence[Question],
    seed: int = 0,
    config: RunConfig | None = None,
    fault: Fault = Fault(),
) -> Believer:
    """Return a believer with at most one fault; without `config` it sees nothing."""
    parts = config and build(config)
    eyes = QuestionVisibility.of(parts, questions) if parts and parts.faithful else None
    walks = parts is None or parts.free
    return Believer(questions, seed, eyes, walks=walks, fault=fault)


NEVER_SEEN = (Cause.STOPPED_EARLY, Cause.NEVER_LOOKED)

# By policy: its fault, and the cause of the questions whose objects it saw.
FAULTS = {
    "believer": (Fault(), Cause.RIGHT),
    "forgetful": (Fault(forgets=True), Cause.MEMORY),
    "misperceiver": (Fault(misperceives=True), Cause.PERCEPTION),
    "misreasoner": (Fault(misreasons=True), Cause.REASONING),
}


def run_policy(name: str, output: Path, **options: Any) -> dict[str, Any]:
    """Run a policy over the bundled rooms; return its diagnosed causes, and how many of them are correct.

    Questions that the policy without a fault had to guess are excluded: it saw too little, or no box answers them.
    """
    defaults = {"batch": True, "benchmark": "rooms", "image_size": (160, 120), "probe": ("map",)}
    config = RunConfig(
        engine="scripted", model=MAPPER, output=str(output / name), **defaults | options
    )
    fault, branch = FAULTS[name]

    def make(config: RunConfig, questions: Any) -> ScriptedEngine:
        return ScriptedEngine(partial(believer, fault=fault)(questions, 0, config))

    run = start_run(config)
    results = finish_run(run, make)
    read = RunData(run.path)
    states, diagnoses = read.states, diagnose_run(read, 1)
    branches: Counter[str] = Counter()
    expected = right = 0
    for state in states:
        found = diagnoses[state.id]
        branches[str(found.cause)] += 1
        if not fault.any and not (found.saw_all and type_of(state.question).solve is not None):
            continue
        expected += 1
        right += found.cause in ((branch,) if found.saw_all else NEVER_SEEN)
    last = results["beliefs"]["last"]
    seen_found = summarize_diagnoses(states, diagnoses, config.image_size)["beliefs"]["seen_found"]
    return {
        "branches": dict(branches),
        "seen": sum(bool(d.saw_all) for d in diagnoses.values()),
        "questions": len(states),
        "expected": expected,
        "right": right,
        "percent": round(100 * right / expected, 1) if expected else None,
        "found": last["found"]["value"],
        "seen_found": seen_found and seen_found["value"],
        "invented": last["invented"]["value"] if "invented" in last else None,
    }
