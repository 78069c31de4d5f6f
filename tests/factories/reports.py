"""Small real runs with their reports."""

import json
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import parse_qsl, unquote, urlsplit

from factories.runs import finish_run, make_config
from factories.scenes import room, write_ply
from render_agent.options import RunConfig
from render_agent.report.pages.build import build_report
from render_agent.report.pages.maps.floor_plan import FloorPlanCache
from render_agent.report.pages.page import render_page
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run


def question_html(frame, part):
    """Render the page of a question to HTML."""
    variables = {"root": "../", "images": "../../", "q": part, "before": None, "after": None}
    return render_page("question.html", frame, **variables)


def floor_plan(report, scene):
    """Return a scene's floor plan as shown on the pages of a report."""
    run = RunData(report.parent)
    state = next(state for state in run.states if state.question.scene == scene)
    with closing(FloorPlanCache(Path(mkdtemp()), run.scenes, run.states)) as plans:
        return plans.of(state)


# Query parameters with which links on the index page filter its table.
FILTERS = {"type", "cause", "turns", "outcome"}

HOSTILE = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"


def run_rooms(folder, **options):
    """Run the scripted explorer over questions of the bundled rooms; return the run folder."""
    return complete_run(make_config(folder, "rooms", benchmark="rooms", **options))


def complete_run(config: RunConfig) -> RunData:
    """Complete a run; return its folder."""
    run = start_run(config)
    finish_run(run)
    return RunData(run.path)


def build_index(folder: RunData, **options) -> Path:
    """Build the report of a run; return its index page."""
    return build_report(folder, processes=1, **options)


def run_hostile(folder):
    """Run questions with hostile ids, scenes, texts and options with `--views none`."""
    write_ply(folder / "room.ply", *room())
    rows = [
        {"id": "0", "scene_name": "room", "question": "How many box(s) are in this room?"},
        {"id": HOSTILE, "scene_name": "../../x", "question": HOSTILE},
        {
            "id": "../../a b",
            "scene_name": HOSTILE,
            "question": "\u2028 </script> \ud83d\ude00 '\"&<>",
        },
    ]
    for row in rows:
        row |= {"dataset": "rooms", "question_type": "object_counting", "ground_truth": "2"}
        row |= {"options": None}
    rows[1] |= {"question_type": "object_rel_distance", "ground_truth": "A"}
    rows[1] |= {"options": [f"A. {HOSTILE}", "B. b", "C. c", "D. d"]}
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return complete_run(make_config(folder, file, views="none"))


class PageReferences(HTMLParser):
    """Collects the references of a page as (tag, attribute, value), its ids, and its inline styles and scripts."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.references: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.inline: list[str] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        """Record the references of an element."""
        if tag == "style" or (tag == "script" and "src" not in dict(attrs)):
            self.inline.append(tag)
        for name, value in attrs:
            if name == "style" or name.startswith("on"):
                self.inline.append(name)
            if name in ("href", "src", "srcset", "data", "action", "poster"):
                self.references.append((tag, name, value or ""))
            elif name == "id":
                self.ids.append(value)


def assert_references_resolve(page: Path) -> PageReferences:
    """Fail if a page has a broken reference, or an inline style, script or image."""
    targets = PageReferences(page)
    assert not targets.inline
    assert len(targets.ids) == len(set(targets.ids))
    for _, name, value in targets.references:
        assert name in ("href", "src")
        parts = urlsplit(value)
        assert (parts.scheme, parts.netloc, value[:1] == "/") == ("", "", False), value
        target = (page.parent / unquote(parts.path)).resolve()
        filters = dict(parse_qsl(parts.fragment))  # a link to a filtered index
        in_page = parts.fragment in targets.ids or (
            filters and filters.keys() <= FILTERS and "filter" in targets.ids
        )
        exists = target.is_file() if parts.path else in_page
        assert exists, (page.name, value)
    return targets
