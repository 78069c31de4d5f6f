"""Browser tests of candidates on question pages."""

import json

import numpy as np
import pytest
from factories.pages import WIDTHS_AND_SCHEMES, assert_accessible, set_window
from factories.reports import HOSTILE, assert_references_resolve, build_index, floor_plan, run_rooms

from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.pages.page import page_of

CHOOSING = {"model": "wanderer", "temperature": 1.0, "max_turns": 4, "id": ("3",), "limit": 1}
LOOKING = {**CHOOSING, "agent": "lookahead:3", "verifier": ("random",)}


def state_of(folder):
    (state,) = folder.states
    return state


@pytest.fixture(scope="module")
def lookahead(tmp_path_factory):
    """Return a run with look-ahead, and its report."""
    folder = run_rooms(tmp_path_factory.mktemp("lookahead"), **LOOKING)
    return folder, build_index(folder).parent


@pytest.fixture(scope="module")
def annotated(tmp_path_factory):
    """Return the report of a run whose log uses all fields of the evidence."""
    folder = run_rooms(tmp_path_factory.mktemp("annotated"), **LOOKING | {"agent": "lookahead:3"})
    file = folder.path / "turns.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    evidence = lines[0]["evidence"]
    candidates = evidence["candidates"]
    candidates.insert(1, candidates.pop(evidence["chosen"]))
    for number, candidate in enumerate(candidates):
        candidate["number"] = number
    evidence["candidates"][2]["action"] = {"malformed": HOSTILE}
    evidence["candidates"][1]["group"] = 1
    evidence["tokens"] = {"in": 1234, "out": 5, "from_cache": 0}
    evidence |= {
        "chosen": 1,
        "weighed": [0, 1],
        "fused": [0.25, 0.75],
        "wordings": ["Own?", HOSTILE],
    }
    evidence["judgements"] = [
        {"verifier": "learned", "members": ["m1", "m2"], "scores": [[0.1, 0.9], [None, 2]],
         "reasons": ["", HOSTILE]},
        {"verifier": "random", "members": ["random"], "scores": [[0.5, 0.5]], "reasons": ["", ""]},
    ]  # fmt: skip
    lines[-1]["evidence"]["ballot"] = {
        "votes": ["4", "8", None, "4"], "winner": "4", "agreement": 0.5, "expected": 0.6, "spread": 1.9
    }  # fmt: skip
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return build_index(folder).parent


def open_question(page, report):
    page.goto((report / page_of("3")).as_uri())
    return page


def cells(table):
    rows = table.locator("tr").all()
    return [[cell.strip() for cell in row.locator("th, td").all_inner_texts()] for row in rows]


def test_candidates_have_images_and_scores(page, lookahead):
    folder, report = lookahead
    state = state_of(folder)
    assert_references_resolve(report / page_of("3"))
    open_question(page, report)
    for turn in state.turns:
        evidence = turn.evidence
        part = page.locator(f"#turn-{turn.number + 1} .choice")
        candidates = evidence.candidates
        figures = part.locator(".candidates > .candidate")
        assert figures.count() == len(candidates) == 3
        for index, candidate in enumerate(candidates):
            figure = figures.nth(index)
            images = [image.get_attribute("src") for image in figure.locator("img").all()]
            assert images == [f"../../{c.view.file}" for c in (candidate,) if c.view]
            marks = figure.locator("> figure .mark.taken").all_inner_texts()
            assert marks == (["✓ chosen"] if candidate.number == evidence.chosen else [])
        if not evidence.weighed:
            assert part.locator(".scores").count() == 0
            continue
        expected_scores = {
            number: [f"{score:.3g}", f"{fused:.2f}"]
            for number, score, fused in zip(
                evidence.weighed, evidence.judgements[0].scores[0], evidence.fused, strict=True
            )
        }
        assert cells(part.locator(".scores"))[0] == ["candidate", "random", "fused"]
        assert [row[1:] for row in cells(part.locator(".scores"))[1:]] == [
            expected_scores[c.number] for c in candidates
        ]
    weighed = [turn for turn in state.turns if turn.evidence.weighed]
    assert len(weighed) == 3
    image_files = {file for turn in state.turns for file in turn.image_files}
    facts = page.locator(".facts").inner_text()
    assert f"{len(image_files)} rendered, {len(state.views)} shown" in facts


def project_on_plan(report, points):
    plan = floor_plan(report, "room00")
    return plan.camera.project(points, *plan.size)[0]


def test_map_shows_rejected_candidates_on_hover(page, lookahead):
    folder, report = lookahead
    first = state_of(folder).turns[0]
    open_question(page, report)
    assert page.locator(".map .might:visible").count() == 0
    page.locator("#turn-1 .choice figcaption").first.hover()
    marks = page.locator(".map .might:visible circle")
    evidence = first.evidence
    rejected = [c for c in evidence.candidates if c.number != evidence.chosen]
    centres = [[float(mark.get_attribute(name)) for name in ("cx", "cy")] for mark in marks.all()]
    points = np.array([c.camera.position for c in rejected if c.camera != first.camera])
    assert np.allclose(centres, project_on_plan(report, points), atol=0.051)
    assert len(centres) >= 1


def test_reasons_and_votes_are_escaped(page, annotated):
    assert_references_resolve(annotated / page_of("3"))
    open_question(page, annotated)
    part = page.locator("#turn-1 .choice")
    assert cells(part.locator(".scores")) == [
        ["candidate", "learned m1", "learned m2", "random", "fused", "reason"],
        ["1", "0.1", "–", "0.5", "0.25", ""],
        ["2 ✓ chosen", "0.9", "2", "0.5", "0.75", f"learned: {HOSTILE}"],
        ["3", "not scored", "unreadable"],
    ]
    assert "1,234 input and 5 output tokens" in part.inner_text()
    assert HOSTILE in part.locator(".candidate").nth(2).inner_text()
    assert part.locator(".wordings li").all_inner_texts() == ["Own?", HOSTILE]
    last = page.locator(".turn .choice").last
    assert cells(last.locator(".votes"))[1:] == [
        ["4 ✓ winner", "2"],
        ["8", "1"],
        ["no answer", "1"],
    ]
    assert page.title() != "taken"


@WIDTHS_AND_SCHEMES
def test_accessibility(page, lookahead, annotated, width, scheme):
    for report in (lookahead[1], annotated) if scheme == "dark" else (annotated,):
        open_question(page, report)
        set_window(page, width, scheme)
        assert_accessible(page, width)


def test_views_of_rejected_moves_count_only_if_shown(page, tmp_path, lookahead):
    run_with_views = run_rooms(tmp_path, **CHOOSING | {"agent": "show:3"})
    state = state_of(run_with_views)
    for folder in (lookahead[0], run_with_views):
        turns = diagnose_run(folder, 1)["3"].turns
        measured_views = [[*dict.fromkeys(s.view for s in turn.sightings)] for turn in turns]
        views = [[v.number for v in t.views if v.kind != "top"] for t in state_of(folder).turns]
        assert measured_views == views
    assert max(len(turn.views) for turn in state.turns) == 3
    open_question(page, build_index(run_with_views).parent)
    captions = page.locator("#turn-2 .view figcaption").all_inner_texts()
    assert ["rejected" in caption for caption in captions] == [False, True, True]
    assert "rejected candidate 2" in captions[1]
