"""The diagnoses that a run was given already; nothing is rendered or written for them here."""

from __future__ import annotations

from render_agent.diagnosis.judge import diagnose
from render_agent.diagnosis.kept import key_of, read_kept
from render_agent.diagnosis.model import Diagnosis
from render_agent.diagnosis.watch import Shown, Watched, named_boxes, new_views
from render_agent.export.chosen import ChosenRun
from render_agent.facts import known_facts
from render_agent.named import named_categories


def known_diagnoses(run: ChosenRun) -> dict[str, Diagnosis]:
    """Return what `render-agent diagnose` or `report` found of the chosen questions, by id.

    Left out are those that took turns since. A run that was shown nothing needs no watching: its
    diagnoses are always known.
    """
    config = run.config
    kept = {} if config.blind else read_kept(run.folder.path)
    if not (kept or config.blind):
        return {}
    facts = known_facts([state.question for state in run.states], config.annotations)
    found = {}
    for state in run.states:
        question = state.question
        watched = Watched()
        if not config.blind:
            views = new_views([turn.views for turn in state.turns])
            shown = Shown(question.id, named_categories(question), views)
            key, watched = kept.get(question.id, ("", watched))
            if key != key_of(shown, named_boxes(shown, facts.get(question.scene))):
                continue
        found[state.id] = diagnose(
            state,
            watched,
            config.image_size,
            mirrored=config.pictures == "mirrored",
            passive=config.passive,
        )
    return found
