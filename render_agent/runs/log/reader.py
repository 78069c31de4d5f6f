"""Read a run back from its folder: the states of its questions, its results and its notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from render_agent.beliefs.belief_summary import ScoredProbe, belief_differences, last_steps
from render_agent.config import RunConfig
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState, SceneSource
from render_agent.errors import QuestionsError, RunLogError, SceneError
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.log.lines import Line
from render_agent.runs.log.results import NO_MARKS, Marks, beliefs_of, results
from render_agent.score.summary import OFFICIAL


class NoScenes:
    """Stands for the scenes of a run that is only read: no scan is opened."""

    def get(self, question: Question) -> NoReturn:
        """SceneError, always."""
        raise SceneError(f"the scan of question {question.id} is not read when a log is")


NO_SCENES = NoScenes()


def read_states(
    folder: RunFolder,
    lines: Sequence[Line] | None = None,
    scenes: SceneSource = NO_SCENES,
    questions: Sequence[Question] | None = None,
) -> list[QuestionState]:
    """Return the questions of a run as its log has them, in order.

    lines: those of the log, where they were read already. scenes: where their scenes come from, if they
    are looked at. questions: those that `lines` are about, all unless given.
    RunLogError where the log is damaged, or the run was killed before its questions were written.
    """
    if not folder.has_questions:
        raise RunLogError(
            f"{folder.path} has no questions yet: go on with it by render-agent --continue"
            f" {folder.path}"
        )
    config = folder.config
    states = [
        QuestionState(question, scenes, config.max_turns, blind=config.blind)
        for question in (folder.questions() if questions is None else questions)
    ]
    folder.replay({state.id: state for state in states}, lines)
    return states


def results_of(
    folder: RunFolder,
    parser: str = OFFICIAL,
    states: Sequence[QuestionState] | None = None,
    marks: Marks = NO_MARKS,
    reuse: str | None = None,
) -> dict[str, Any]:
    """Return the results of a run as its log has it: all that are written are made here. RunLogError where it is damaged.

    states: the run's questions, where they were read already. marks: as `results` has them. reuse: what the engine
    kept over turns in the end; by default what results written before say, else what it began with.
    """
    if reuse is None:
        with suppress(RunLogError):
            reuse = (folder.results() or {}).get("reuse")
    return results(
        read_states(folder) if states is None else states,
        partial=folder.config.partial,
        notes=notes(folder.record),
        parser=parser,
        stress=folder.config.picture_stress,
        annotations=folder.config.annotations,
        marks=marks,
        reuse=reuse or folder.record["engine"].get("reuse"),
    )


def compared_beliefs(
    a: RunFolder,
    b: RunFolder,
    states: tuple[Sequence[QuestionState] | None, Sequence[QuestionState] | None] = (None, None),
) -> dict[str, dict[str, Any]]:
    """Return the differences of the last beliefs of run b from those of a, see `belief_differences`; empty without beliefs.

    states: the questions of both, where they were read already. RunLogError where a log is damaged.
    """
    if not (a.config.probe and b.config.probe):
        return {}
    sides = []
    for folder, known in zip((a, b), states, strict=True):
        read = read_states(folder) if known is None else known
        probes: Mapping[str, Sequence[ScoredProbe]] = {}
        with suppress(
            QuestionsError
        ):  # the files that told what is true are no more what they were
            probes = beliefs_of(read, folder.config.picture_stress, folder.config.annotations)
        sides.append(last_steps(read, probes))
    return belief_differences(*sides)


def notes(record: Mapping[str, Any]) -> list[str]:
    """Return the notes that stand beside every figure of a run, from its `config.json`."""
    sentences = [*record["notes"], record["engine"].get("note"), record["choosing"].get("note")]
    sentences += RunConfig.from_json(record["config"]).notes
    return [note for note in sentences if note]
