"""Dialogues of several turns with pictures, led with any engine, and what they must come to."""

import random

import torch

from factories.models import speckled_file
from render_agent.dialogue import chat
from render_agent.engines.engine import Reply, Request
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import open_model

SIZES = ("64x64", "96x64", "50x70", "160x96")


class Dialogues:
    """So many questions that take turns of their own: 0 to 3 pictures and a few sentences in each.

    What is said depends on the question and the turn alone, so that any two engines that reply alike
    are asked alike. Question i has `turns` turns, less one where i is odd, so that rows retire.
    """

    def __init__(self, count=5, turns=3, instructions="Explore the room. " * 12, **more):
        self.ids = [f"q{number}" for number in range(count)]
        self.turns = {name: turns - number % 2 for number, name in enumerate(self.ids)}
        self.messages = {
            name: [chat.message("system", chat.text(instructions))] for name in self.ids
        }
        self.more = {"max_new_tokens": 14} | more
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
        limit = self.more["max_new_tokens"] - chance.randrange(5)
        more = self.more | {"max_new_tokens": limit}
        return Request(name, turn, self.messages[name], speckled_file, seed=3, **more)

    def lead(self, engine, together=None):
        """Lead all dialogues to their ends, each at its own pace; return self."""
        waiting = list(self.ids)
        under_way = 0
        while waiting or under_way:
            while waiting and under_way < (together or len(self.ids)):
                engine.submit([self.request(waiting.pop(0))])
                under_way += 1
            for request, reply in engine.ready():
                under_way -= 1
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
    def said(self):
        """The texts of all replies, or why there is none."""
        return {
            name: [reply.error or reply.samples for reply in replies]
            for name, replies in self.replies.items()
        }

    @property
    def tokens(self):
        """How many tokens were read, first seen, and taken from a cache: one triple."""
        read = seen = cached = 0
        for replies in self.replies.values():
            before = 0
            for reply in replies:
                read += reply.tokens.prompt
                seen += reply.tokens.prompt - before
                cached += reply.tokens.cached
                before = reply.tokens.prompt + reply.tokens.reply
        return read, seen, cached

    @property
    def events(self):
        """All events, in no order."""
        return sorted(
            event
            for replies in self.replies.values()
            for reply in replies
            for event in reply.events
        )


def load(folder, dtype="float32"):
    """Return a model of a directory, on the CPU."""
    return open_model(str(folder), dtype=dtype, device="cpu")


def library_engine(model, *, batch_size=None, memory=None, options=None, **named):
    """Return an engine that calls the library's own `generate`, with the model of a directory or a name."""
    loaded = open_model(model, options=options, **named)
    return TransformersEngine(loaded, batch_size=batch_size, memory=memory, options=options)


class UncachedModel:
    """What replies are measured by: the model's own `generate`, one prompt after the other, nothing kept."""

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
