"""Summarise VSI-Bench's published answers by question type, for the baselines of selections without enough scenes.

Usage: .venv/bin/python render_agent_lab/bench/published_answers.py test.jsonl > render_agent/score/published_answers.json

Writes the number of questions, the most frequent answer (see `render_agent/score/chance.py`) and, for numbers, the
middles of NUM_QUANTILES equally frequent parts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.score.chance import most_frequent_answer
from render_agent.tasks.question_types import NUMBER_TYPES, TYPES
from render_agent.tasks.row_files import load_questions

NUM_QUANTILES = 20


def summarise(path: Path) -> dict[str, dict[str, Any]]:
    """Return the content of `published_answers.json` for VSI-Bench's question file."""
    questions = load_questions(path, "vsibench")
    shares = (np.arange(NUM_QUANTILES) + 0.5) / NUM_QUANTILES
    table: dict[str, dict[str, Any]] = {}
    for name in TYPES:
        group = [question for question in questions if question.type == name]
        table[name] = {"n": len(group), "frequent": most_frequent_answer(group)}
        if name in NUMBER_TYPES:
            numbers = [float(question.ground_truth or "nan") for question in group]
            quantiles = np.quantile(numbers, shares, method="inverted_cdf")
            table[name]["quantiles"] = [f"{number:g}" for number in quantiles]
    return table


if __name__ == "__main__":
    entries = summarise(Path(sys.argv[1])).items()
    rows = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries]
    print("{\n" + ",\n".join(rows) + "\n}")
