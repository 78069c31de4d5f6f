"""A policy with samples of every kind that a model may produce, and runs of agents that choose among them."""

import json
import random

from factories.runs import play
from render_agent.engines.engine import Capabilities
from render_agent.engines.scripted import ScriptedEngine

# Agents and their verifiers.
AGENTS = {
    "best:3": ("random",),
    "lookahead:3": ("geometry", "random"),
    "show:3": (),
}


class MixedReplies:
    """Replies that depend only on the request's seed and the sample number.

    Most are moves; some are unreadable, contradictory, show nothing new, or end the dialogue.
    """

    def reply(self, request):
        return self.samples(request)[0]

    def samples(self, request):
        return [self._sample(request, number) for number in range(request.num_samples)]

    def _sample(self, request, number):
        chance = random.Random(f"{request.seed} {number}")
        if request.is_last_turn:
            return json.dumps({"answer": chance.choice("AB"), "done": True})
        step = {
            "rotation_angle_degrees": chance.choice([0, 0, 90, -120]),
            "forward_meters": chance.choice([0, 0.5, 3]),
        }
        kind = chance.random()
        if kind < 0.6:
            return json.dumps(step | {"view": chance.choice(["ego", "top", "around", 0, 2, 77])})
        odd = [
            "",
            "I would rather not say.",
            json.dumps({"moves": step, "answer": {"is": ["A"]}}),
            json.dumps(step)[:-9],
            json.dumps(step | {"done": True}),
            json.dumps(step | {"answer": "B", "view": "ceiling", "look_at": [1, 1, 1]}),
            json.dumps(step) + json.dumps({"forward_meters": "half", "view": "top"}),
        ]
        return chance.choice(odd) if kind < 0.85 else json.dumps({"answer": "A", "done": True})


class FreeRunning(ScriptedEngine):
    """Streaming engine that returns replies out of order, a few at a time, and nothing if woken early."""

    capabilities = Capabilities(streaming=True)
    woken = idle = False

    def wake(self):
        self.woken = True

    def ready(self, timeout=None):
        self._waiting.sort(key=lambda request: hash((request.dialogue_id, request.seed)))
        self.idle, self.woken = self.woken and not self.idle, False
        if not self.idle:
            yield from super().ready()


def mixed_engine(batch_size=64, engine_class=ScriptedEngine):
    """Return an engine with `MixedReplies`."""
    return engine_class(MixedReplies(), batch_size)


def agent_options(agent):
    """Return the options of a small run of an agent."""
    small = {
        "temperature": 1.0,
        "image_size": (48, 36),
        "max_turns": 4,
        "view_types": ("ego", "top"),
    }
    return small | {"agent": agent, "verifier": AGENTS[agent]}


def run_agent(folder, questions, agent, engine, **options):
    """Run questions with an agent; return the run folder and the results."""
    return play(folder, questions, engine, **agent_options(agent) | options)
