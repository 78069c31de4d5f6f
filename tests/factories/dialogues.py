"""Dialogues of several turns with images, for any engine, and their reference replies."""

import random

import torch

from factories.models import load_random_image
from render_agent.dialogue import chat
from render_agent.engines.engine import Reply, Request
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model

SIZES = ("64x64", "96x64", "50x70", "160x96")


class Dialogues:
    """Concurrent dialogues with 0 to 3 images and a few sentences per turn.

    Messages depend only on question and turn, so that engines with equal replies get equal requests.
    Question i has `turns` turns, or one less if i is odd, so that sequences end at different times.
    """

    def __init__(self, count=5, turns=3, instructions="Explore the room. " * 12, **options):
        self.ids = [f"q{number}" for number in range(count)]
        self.turns = {name: turns - number % 2 for number, name in enumerate(self.ids)}
        self.messages = {
            name: [chat.message("system", chat.text(instructions))] for name in self.ids
        }
        self.options = {"max_new_tokens": 10} | options
        self.replies = {name: [] for name in self.ids}

    def request(self, name):
        turn = len(self.replies[name])
        chance = random.Random(f"{name} {turn}")
        files = [
            f"{chance.choice(SIZES)}-{chance.randrange(1000)}.png"
            for _ in range(chance.randrange(4))
        ]
        asked = chat.text(f"This is {name}. " + "Where is the chair? " * chance.randint(1, 5))
        shown = map(chat.image_piece, files)
        self.messages[name] = [*self.messages[name], chat.message("user", asked, *shown)]
        limit = self.options["max_new_tokens"] - chance.randrange(5)
        options = self.options | {"max_new_tokens": limit}
        return Request(name, turn, self.messages[name], load_random_image, seed=3, **options)

    def run(self, engine, max_concurrent=None):
        """Run all dialogues to completion independently; return self."""
        waiting = list(self.ids)
        in_flight = 0
        while waiting or in_flight:
            while waiting and in_flight < (max_concurrent or len(self.ids)):
                engine.submit([self.request(waiting.pop(0))])
                in_flight += 1
            for request, reply in engine.ready():
                in_flight -= 1
                name = request.dialogue_id
                self.replies[name].append(reply)
                answered = chat.assistant(reply.text if reply.error is None else "nothing")
                self.messages[name] = [*self.messages[name], answered]
                if len(self.replies[name]) < self.turns[name]:
                    waiting.append(name)
                else:
                    engine.retire(name)
        return self

    @property
    def texts(self):
        """The texts of all samples by dialogue, or the error of a failed reply."""
        return {
            name: [reply.error or reply.samples for reply in replies]
            for name, replies in self.replies.items()
        }

    @property
    def tokens(self):
        """Totals of prompt tokens: all, new in each turn, and from the cache."""
        total = new = cached = 0
        for replies in self.replies.values():
            before = 0
            for reply in replies:
                total += reply.tokens.prompt
                new += reply.tokens.prompt - before
                cached += reply.tokens.cached
                before = reply.tokens.prompt + reply.tokens.reply
        return total, new, cached

    @property
    def events(self):
        """The events of all replies, sorted."""
        return sorted(
            event
            for replies in self.replies.values()
            for reply in replies
            for event in reply.events
        )


def load(folder, dtype="float32"):
    """Load a model from a directory on the CPU."""
    return open_model(str(folder), dtype=dtype, device="cpu")


def load_transformers_engine(model, *, batch_size=None, options=None, **named):
    """Return an engine that calls transformers' `generate`, with a model directory or name."""
    loaded = open_model(model, options=options, **named)
    return TransformersEngine(loaded, batch_size=batch_size, options=options)


class UncachedModel:
    """Reference engine: the model's own `generate`, one prompt at a time, without a cache."""

    def __init__(self, loaded):
        self.loaded = loaded
        self.waiting = []

    def generate(self, requests):
        return [Reply((self.write(request),)) for request in requests]

    def submit(self, requests):
        self.waiting += requests

    def ready(self, timeout=None):
        waiting, self.waiting = self.waiting, []
        yield from zip(waiting, self.generate(waiting), strict=True)

    def retire(self, question_id):
        pass

    def write(self, request):
        loaded = self.loaded
        prompt = loaded.inputs.prepare(request)
        tensors = loaded.inputs.process([prompt])
        length = tensors["input_ids"].shape[1]
        with torch.inference_mode():
            written = loaded.model.generate(
                **tensors,
                do_sample=False,
                max_new_tokens=request.max_new_tokens,
                eos_token_id=list(loaded.ends) or None,
                pad_token_id=loaded.pad,
                suppress_tokens=list(loaded.suppressed) or None,
            )
        ids = written[0, length:].tolist()
        ended = next((place for place, token in enumerate(ids) if token in loaded.ends), None)
        return loaded.text(ids[:ended], prompt.text)
