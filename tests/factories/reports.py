"""Small runs of the real program with their reports."""

import json
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import parse_qsl, unquote, urlsplit

from factories.runs import NullObserver, make_config
from factories.scenes import room, write_ply
from render_agent.options import RunConfig
from render_agent.report.pages.build import build_report
from render_agent.report.pages.maps.floor_plan import FloorPlanCache
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.util.web.templates import environment


def question_html(frame, part):
    """Return the page of a question as HTML."""
    template = environment("report/pages").get_template("question.html")
    return template.render(frame, root="../", pictures="../../", q=part, before=None, after=None)


def plan_of(report, scene):
    """Return the plan of a scene as the pages in a folder show it."""
    run = RunData(report.parent)
    state = next(state for state in run.states if state.question.scene == scene)
    with closing(FloorPlanCache(Path(mkdtemp()), run.scenes, run.states)) as plans:
        return plans.of(state)


FILTERS = {"type", "cause", "turns", "outcome"}
"""By what links of the index to its own questions choose."""

HOSTILE = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"


def run_rooms(folder, **options):
    """Run the scripted explorer over questions of the bundled rooms; return the run folder."""
    return go(make_config(folder, "rooms", benchmark="rooms", **options))


def go(config: RunConfig) -> RunData:
    """Take a run to its end; return its folder."""
    run = start_run(config)
    try:
        run.go(NullObserver())
    finally:
        run.close()
    return RunData(run.path)


def reported(folder: RunData, **options) -> Path:
    """Build the report of a run; return its index."""
    return build_report(folder, processes=1, **options)


def run_hostile(folder):
    """Run questions whose id, scene, text and options are no names and no harmless words, blind."""
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
    return go(make_config(folder, file, views="none"))


class Targets(HTMLParser):
    """Everything that a page refers to: tag, attribute, value; and the ids that it has.

    own: styles and scripts that stand in the page itself.
    """

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.own: list[str] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        """Note what an element refers to."""
        if tag == "style" or (tag == "script" and "src" not in dict(attrs)):
            self.own.append(tag)
        for name, value in attrs:
            if name == "style" or name.startswith("on"):
                self.own.append(name)
            if name in ("href", "src", "srcset", "data", "action", "poster"):
                self.found.append((tag, name, value or ""))
            elif name == "id":
                self.ids.append(value)


def assert_whole(page: Path) -> Targets:
    """Fail where a page refers to what is not there, or holds a style, script or picture of its own."""
    targets = Targets(page)
    assert not targets.own
    assert len(targets.ids) == len(set(targets.ids))
    for _, name, value in targets.found:
        assert name in ("href", "src")
        parts = urlsplit(value)
        assert (parts.scheme, parts.netloc, value[:1] == "/") == ("", "", False), value
        target = (page.parent / unquote(parts.path)).resolve()
        kept = dict(parse_qsl(parts.fragment))  # by a filter of the index
        inside = parts.fragment in targets.ids or (
            kept and kept.keys() <= FILTERS and "filter" in targets.ids
        )
        there = target.is_file() if parts.path else inside
        assert there, (page.name, value)
    return targets
