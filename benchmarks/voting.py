"""What a vote on numbers is worth: the rule of `--agent vote:K` beside the median, the mean and one sample.

    python benchmarks/voting.py --output benchmarks/results/voting

`vote:K` gives the value with the least expected loss under the official score, were every vote the truth in
turn. With few votes that is not the value with the least loss against the truth itself. Truths are those of
the bundled rooms' questions; votes are drawn about them by several models of error, so nothing here says how
a vision-language model errs.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from render_agent.agents.ballot import COUNTING, least_loss
from render_agent.questions.rooms import bundled
from render_agent.score.official import NUMBER_TYPES, mean_relative_accuracy

Chance = np.random.Generator
Votes = NDArray[np.float64]


def spread(
    shared: float, own: float, outliers: float = 0.0
) -> Callable[[Chance, float, int], Votes]:
    """Return a model of error: each vote is the truth times a log-normal factor.

    shared, own: deviations of the logarithm of what all votes of a question have in common, and of what
    each has for itself. outliers: the share of votes that are off by a factor of 2 to 10 besides.
    """

    def drawn(chance: Chance, truth: float, count: int) -> Votes:
        off = chance.normal(0, shared) + chance.normal(0, own, count)
        wild = chance.random(count) < outliers
        far = chance.uniform(np.log(2), np.log(10), count) * chance.choice([-1, 1], count)
        return np.asarray(truth * np.exp(off + wild * far))

    return drawn


MODELS: Mapping[str, Callable[[Chance, float, int], Votes]] = {
    "each by itself, by a fifth": spread(0.0, 0.2),
    "each by itself, by two fifths": spread(0.0, 0.4),
    "each by itself, by four fifths": spread(0.0, 0.8),
    "the truth as one more vote": spread(0.4, 0.4),
    "most of the error in common": spread(0.5, 0.15),
    "a fifth of the votes far off": spread(0.1, 0.2, 0.2),
}


def rules(votes: Sequence[float], *, whole: bool) -> dict[str, float]:
    """Return what each rule makes of votes; for counts the mean is rounded, and the lower median taken."""
    mean = statistics.fmean(votes)
    found = {
        "one sample": votes[0],
        "least loss": least_loss(votes, whole=whole),
        "median": statistics.median_low(votes) if whole else statistics.median(votes),
        "mean": float(round(mean)) if whole else mean,
    }
    return found | ({"least loss, any number": least_loss(votes)} if whole else {})


def measured(
    truths: Sequence[float], model: Callable[[Chance, float, int], Votes], count: int, **how: Any
) -> dict[str, dict[str, Any]]:
    """Return each rule's mean score, in percent, and how far it is from the median's, with its error.

    how: `whole`, whether they are counts; `rounds`, draws of votes for every truth. The error is the
    standard error of the paired difference over all draws.
    """
    scores: dict[str, list[float]] = {}
    for number, truth in enumerate(truths):
        for turn in range(how["rounds"]):
            votes = model(np.random.default_rng([turn, number, count]), truth, count)
            votes = np.maximum(np.round(votes), 0) if how["whole"] else np.round(votes, 1)
            for name, value in rules(votes.tolist(), whole=how["whole"]).items():
                scores.setdefault(name, []).append(mean_relative_accuracy(value, truth))
    middle = np.array(scores["median"])
    found = {}
    for name, values in scores.items():
        apart = 100 * (np.array(values) - middle)
        error = float(apart.std() / np.sqrt(len(apart)))
        found[name] = {"score": 100 * float(np.mean(values)), "minus_median": float(apart.mean()), "error": error}  # fmt: skip
    return found


def truths_of(counts: bool) -> list[float]:
    """Return the true numbers of the bundled questions, of counts or of all others."""
    asked = [question for question in bundled() if question.type in NUMBER_TYPES]
    return [float(q.truth) for q in asked if q.truth and (q.type == COUNTING) == counts]


@click.command()
@click.option("--votes", default="5,15", show_default=True, help="Votes on a question.")
@click.option("--rounds", default=40, show_default=True, help="Draws of votes for every truth.")
@click.option("--output", help="Write OUTPUT.json and OUTPUT.md.")
def main(votes: str, rounds: int, output: str | None) -> None:
    """Draw votes about known truths, and score what each rule makes of them."""
    rows = []
    for count in map(int, votes.split(",")):
        for what, counts in (("measures", False), ("counts", True)):
            truths = truths_of(counts)
            for label, model in MODELS.items():
                found = measured(truths, model, count, whole=counts, rounds=rounds)
                rows.append({"votes": count, "of": what, "model": label, "n": len(truths) * rounds, "rules": found})  # fmt: skip
    command = f"python benchmarks/voting.py --votes {votes} --rounds {rounds}"
    record = {"command": command + (f" --output {output}" if output else ""), "rows": rows}
    text = table(record)
    click.echo(text)
    if output:
        Path(output + ".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        Path(output + ".md").write_text(text, "utf-8")


def table(record: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    names = list(record["rows"][-1]["rules"])
    lines = [
        "# Votes on numbers: which rule scores best",
        "",
        "Mean relative accuracy, in percent, over the true numbers of the bundled rooms' questions; votes are"
        " drawn about them, in metres and the like to one decimal, in counts to whole numbers. The last column"
        " is the least loss less the median, with the standard error of that difference. `least loss` is the"
        " rule of `--agent vote:K`: of counts the best whole number.",
        "",
        "| votes | of | error | " + " | ".join(names) + " | least loss − median |",
        "|--:|---|---|" + "--:|" * (len(names) + 1),
    ]
    for row in record["rows"]:
        cells = [f"{row['rules'][n]['score']:.1f}" if n in row["rules"] else "–" for n in names]
        best = row["rules"]["least loss"]
        lines.append(
            f"| {row['votes']} | {row['of']} | {row['model']} | {' | '.join(cells)} |"
            f" {best['minus_median']:+.1f} ± {best['error']:.1f} |"
        )
    return "\n".join([*lines, "", f"    {record['command']}", ""])


if __name__ == "__main__":
    main()
