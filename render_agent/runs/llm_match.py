"""LLM-Match: a model marks free-text answers from 1 to 5, using OpenEQA's prompts.

Prompts and mark parsing follow facebookresearch/open-eqa (prompts/mmbench.txt, mmbench-extra.txt and
openeqa/evaluation/llm_match.py; MIT licence); see Majumdar et al., OpenEQA (CVPR 2024). A mark m scores (m − 1) / 4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from render_agent.dialogue.chat import message, text
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.engines.engine import Engine, Request
from render_agent.score.intervals import ratio
from render_agent.score.questions import metric_of
from render_agent.util.reasons import short_repr

PROMPT = """\
You are an AI assistant who will help me to evaluate the response given the question and the correct answer.
To mark a response, you should output a single integer between 1 and 5 (including 1, 5).
5 means that the response perfectly matches the answer.
1 means that the response is completely different from the answer.

Example 1:
Question: Is it overcast?
Answer: no
Response: yes
Your mark: 1

Example 2:
Question: Who is scored at the table?
Answer: woman
Response: Jessica
Your mark: 3

Example 3:
Question: Are there drapes to the right of the bed?
Answer: yes
Response: yes
Your mark: 5

Your Turn:
Question: {question}
Answer: {answer}
Response: {prediction}"""

EXTRA_PROMPT = """\
You are an AI assistant who will help me to evaluate the response given the question, the correct answer, and extra \
answers that are also correct.
To mark a response, you should output a single integer between 1 and 5 (including 1, 5).
5 means that the response perfectly matches the answer or any of the extra answers.
1 means that the response is completely different from the answer and all of the extra answers.

Example 1:
Question: Is it overcast?
Answer: no
Extra Answers: ['doesn't look like it', 'no',' it's sunny']
Response: yes
Your mark: 1

Example 2:
Question: Who is scored at the table?
Answer: woman
Extra Answers: ['a woman', 'a lady', 'woman']
Response: Jessica
Your mark: 3

Example 3:
Question: Are there drapes to the right of the bed?
Answer: yes
Extra Answers: ['yes, there are drapes', 'yeah', 'the drapes are to the right of the king bed']
Response: yes
Your mark: 5

Your Turn:
Question: {question}
Answer: {answer}
Extra Answers: {extra_answers}
Response: {prediction}"""

_TAG = re.compile(r"Your mark:[ \t]*(\d+)[ \t]*$", re.MULTILINE)


class Marks(NamedTuple):
    """The marks given by a judge model."""

    marks: dict[str, int]
    """1 to 5, by question id."""
    faults: dict[str, str]
    """Reason why a question has no mark, by question id."""

    @property
    def scores(self) -> dict[str, float]:
        """Scores from 0 to 1, by question id."""
        return {question_id: (mark - 1) / 4 for question_id, mark in self.marks.items()}


def mark_answers(
    states: Sequence[QuestionState],
    engine: Engine,
    max_new_tokens: int,  # limit per mark
) -> Marks:
    """Mark the answers to all questions with a judged metric, with greedy decoding.

    Unanswered questions get the mark 1 without a call.
    """
    states_by_id = {
        s.id: s
        for s in states
        if metric_of(s.question).needs_judge and s.question.ground_truth is not None
    }
    marks = {name: 1 for name, state in states_by_id.items() if state.answer_text is None}
    requests = [
        Request(
            dialogue_id=name,
            turn=0,
            messages=[message("user", text(prompt(state.question, state.answer_text)))],
            load_image=_refuse_image,
            is_last_turn=True,
            max_new_tokens=max_new_tokens,
        )
        for name, state in states_by_id.items()
        if state.answer_text is not None
    ]
    faults = {}
    for request, reply in zip(requests, engine.generate(requests), strict=True):
        mark = None if reply.error else read_mark(reply.text)
        if mark is None:
            faults[request.dialogue_id] = reply.error or f"no mark in {short_repr(reply.text)}"
        else:
            marks[request.dialogue_id] = mark
        engine.retire(request.dialogue_id)
    return Marks({name: marks[name] for name in states_by_id if name in marks}, faults)


def prompt(question: Question, answer: str) -> str:
    """Return the judge's prompt. Like OpenEQA, ignore text after the last full stop of the answer."""
    end = answer.rfind(".") + 1
    fields = {
        "question": question.text,
        "answer": question.ground_truth,
        "prediction": answer[:end] if end else answer,
    }
    if not question.answers:
        return PROMPT.format(**fields)
    return EXTRA_PROMPT.format(**fields, extra_answers=list(question.answers))


def read_mark(reply: str) -> int | None:
    """Parse a mark from 1 to 5, either alone or after "Your mark:"; return None if there is none."""
    text = reply.strip()
    mark = text if text.isdecimal() else (m[1] if (m := _TAG.search(text)) else "")
    return int(mark) if mark in ("1", "2", "3", "4", "5") else None


def match_figures(states: Sequence[QuestionState], marks: Marks) -> dict[str, Any]:
    """Return the `llm_match` entry of the results: mean score in percent, its confidence interval and all marks."""
    scenes = {s.id: (s.question.dataset, s.question.scene) for s in states}
    scores = marks.scores
    mean = ratio(list(scores.values()), [scenes[name] for name in scores])
    return {
        "score": None if mean is None else 100 * float(mean.mean),
        "interval": None if mean is None else mean.interval(share=True),
        "n": len(scores),
        "marks": marks.marks,
        "faults": marks.faults,
    }


def _refuse_image(file: str) -> NoReturn:
    raise ValueError(f"judge prompts contain no images, but {file} was requested")
