"""What the documentation says of equal cost is what was measured."""

import json
import re

from factories import TREE

RESULTS = TREE / "benchmarks" / "results"
PAGE = " ".join((TREE / "docs" / "explanation" / "choosing.md").read_text("utf-8").split())


def measured(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def test_every_result_says_the_command_that_makes_it():
    for page in RESULTS.rglob("*.md"):
        text = page.read_text("utf-8")
        programs = re.findall(r"python (?:-m )?((?:benchmarks|training)[./]\w+)", text)
        assert programs or re.search(r"^(?: {4}|`)?render-agent ", text, re.MULTILINE), page
        for program in programs:
            assert (TREE / program.replace(".", "/")).with_suffix(".py").is_file(), (page, program)


def test_choosing_at_equal_cost_scored_as_the_page_says():
    cells = {cell["label"]: cell["official"] for cell in measured("choose")["cells"]}
    longer, by_boxes, chance = (
        f"{cells[label]:.1f}"
        for label in ("single, longer by pictures", "geometry of 4", "random of 4")
    )
    assert (
        f"scored {longer} at equal pictures, geometry {by_boxes} and a random choice {chance}"
        in PAGE
    )


def test_the_learned_verifier_in_fresh_rooms_saved_what_the_page_says():
    gap = measured("fresh_rooms")["less_than_random"]["learned"]
    low, high = gap["over_scenes"]
    assert low > 0
    told = f"saved {gap['fewer']:.2f} moves ({low:.2f} … {high:.2f}, p {gap['p']:.3f};"
    assert told in PAGE


def test_the_ensemble_scored_as_fast_as_the_page_says():
    record = measured("learned_verifier")
    alone, batched = (
        record["times_computed_once"][way]["median"]
        for way in ("one by one", "batched, the view repeated")
    )
    took = 1000 * record["median_seconds"]["computed once"]
    assert (
        f"scoring {record['candidates']} histories with {record['members']} members, everything computed"
        f" once, takes {took:.0f} ms on one core of a processor: {alone:.1f} times less than one by one and"
        f" {batched:.1f} times less than in batches" in PAGE
    )
    assert max(record["apart"].values()) < 1e-6
