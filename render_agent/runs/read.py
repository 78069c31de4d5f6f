"""Read a run folder: `RunData` is what everything above `runs` knows of a run on disk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState, SceneSource
from render_agent.dialogue.turn import LogLine
from render_agent.errors import RunLogError, SceneError, SetupError
from render_agent.options import RunConfig, fingerprint_of
from render_agent.runs.build import Parts, build
from render_agent.runs.log.lines import question_from_json, read_line, replay
from render_agent.runs.log.results import results
from render_agent.runs.log.row import NO_MARKS, Marks, Row, row_of
from render_agent.runs.log.schema import Record, Results, check_format
from render_agent.scans.cache import SceneCache
from render_agent.score.summary import OFFICIAL
from render_agent.util.contained_paths import refuse_ways_out
from render_agent.util.reasons import did_you_mean, shortened
from render_agent.util.safe_parse import convert, parse_json
from render_agent.util.whole_files import read_json, read_lines

NO_RUNS = "start one with --batch or --ply, or name the folder of runs with --runs DIR"
"""What to do if a folder contains no run."""


class NoScenes:
    """The scenes of a run that is only read: no scan is opened."""

    def get(self, question: Question) -> NoReturn:
        """SceneError, always."""
        raise SceneError(f"the scan of question {question.id} is not read when a log is")


NO_SCENES = NoScenes()


class RunData:
    """One run on disk, finished or not; `RunLog` writes it.

    Every part is read when it is first used, and once: `reload` to see a running run progress.
    RunLogError if it is no run folder, of another format, or damaged.
    """

    finished: bool  # `results.json`, which is written last, was there before anything was read

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        if not (path / "config.json").is_file():
            raise RunLogError(f"{path} is not a run folder: it has no config.json", "not a run")
        refuse_ways_out(path)
        file = path / "config.json"
        self.record: dict[str, Any] = read_json(file)
        check_format(path, self.record)
        with _damage(file, "restore the file"):
            convert(self.record, Record)
        self.reload()

    def reload(self) -> None:
        """Forget the questions, turns and results that were read."""
        for name in vars(self).keys() - {"path", "name", "record", "config", "parts"}:
            del vars(self)[name]
        self.finished = (self.path / "results.json").is_file()

    @cached_property
    def config(self) -> RunConfig:
        """The options of the run. RunLogError if `config.json` was edited."""
        saved = self.record["config"]
        if fingerprint_of(saved) != self.record["fingerprint"]:
            raise RunLogError(
                f"{self.path / 'config.json'} was edited after the run began: its options do not match their"
                " fingerprint; undo the change, or start a new run with the options you want"
            )
        with self._other_version():
            return RunConfig.from_json(saved)

    @cached_property
    def parts(self) -> Parts:
        """What the options of the run name. RunLogError if the package that brings a part is not installed."""
        config = self.config
        with self._other_version():
            return build(config)

    @contextmanager
    def _other_version(self) -> Iterator[None]:
        try:
            yield
        except SetupError as error:
            raise RunLogError(
                f"{self.path} cannot be read ({error}): it was written by render_agent"
                f" {shortened(self.record['program'], 40)}; use that version, or a newer one"
            ) from error

    @property
    def model(self) -> str:
        """The model, as the engine named it."""
        return str(self.record["engine"]["model"])

    @cached_property
    def notes(self) -> list[str]:
        """The notes that `config.json` puts beside every figure of the run."""
        record = self.record
        notes = [*record["notes"], record["engine"].get("note"), record["choosing"].get("note")]
        notes += self.parts.notes
        return [note for note in notes if note]

    @property
    def has_questions(self) -> bool:
        """Whether `questions.jsonl` is there; it is written whole, after `config.json`."""
        return (self.path / "questions.jsonl").is_file()

    @cached_property
    def questions(self) -> list[Question]:
        """The questions in the order of the run. RunLogError if the run was killed before they were written."""
        if not self.has_questions:
            raise RunLogError(
                f"{self.path} has no questions yet: go on with it by render-agent --continue {self.path}"
            )
        file = self.path / "questions.jsonl"
        return read_lines(file, lambda line: question_from_json(parse_json(line)))[0]

    @cached_property
    def turns(self) -> list[LogLine]:
        """The whole lines of `turns.jsonl`, empty if it does not exist yet. RunLogError if one is damaged."""
        file = self.path / "turns.jsonl"
        return read_lines(file, read_line)[0] if file.exists() else []

    def lines(self) -> list[dict[str, Any]]:
        """Return the same lines as plain values."""
        file = self.path / "turns.jsonl"
        lines: list[dict[str, Any]] = read_lines(file)[0] if file.exists() else []
        return lines

    @cached_property
    def states(self) -> list[QuestionState]:
        """The questions with their turns, in the order of the run; no scan is opened."""
        return self.read_states()

    @cached_property
    def rows(self) -> dict[str, Row]:
        """The rows of the questions by id."""
        stress = self.parts.picture_stress
        return {state.id: row_of(state, stress=stress) for state in self.states}

    def select(self, question_ids: Collection[str], name: str) -> RunData:
        """Return this run under a name with some of its questions: `states`, `rows` and `results` are theirs."""
        selected = copy(self)
        selected.name = name
        selected.states = [state for state in self.states if state.id in question_ids]
        selected.__dict__.pop("rows", None)
        selected.__dict__.pop("results", None)
        return selected

    def read_states(self, scenes: SceneSource = NO_SCENES) -> list[QuestionState]:
        """Return new states of the questions with their turns; scenes: where their scenes come from."""
        parts = self.parts
        states = [
            QuestionState(question, scenes, parts.config.max_turns, blind=parts.blind)
            for question in self.questions
        ]
        self.replay(states)
        return states

    def replay(self, states: Iterable[QuestionState]) -> None:
        """Give every logged turn to its state. RunLogError if a line does not fit."""
        with _damage(self.path / "turns.jsonl", "restore the file"):
            replay(self.turns, {state.id: state for state in states})

    @cached_property
    def scenes(self) -> SceneCache:
        """The scenes that the questions were shown, each read when it is used."""
        return self.parts.scenes(self.questions)

    @cached_property
    def saved_results(self) -> dict[str, Any] | None:
        """The content of `results.json`, None while the run is unfinished. RunLogError if it is damaged."""
        if not self.finished:
            return None
        file = self.path / "results.json"
        saved: dict[str, Any] = read_json(file)
        with _damage(file, f"remove it and run render-agent --continue {self.path}"):
            convert(saved, Results)
        return saved

    @cached_property
    def results(self) -> dict[str, Any]:
        """The results, computed from the log, as `results.json` has them; also of an unfinished run."""
        return self.score(self.states)

    def score(
        self,
        states: Sequence[QuestionState],
        parser: str = OFFICIAL,
        marks: Marks = NO_MARKS,
        reuse: str | None = None,
    ) -> dict[str, Any]:
        """Return the results of some states of this run; `results.json` is made here.

        parser, marks: as in `results`. reuse: what the engine kept over turns in the end; by default what earlier
        results say, else what it began with.
        """
        if reuse is None:
            with suppress(RunLogError):
                reuse = (self.saved_results or {}).get("reuse")
        return results(
            states,
            partial=self.config.partial,
            notes=self.notes,
            parser=parser,
            stress=self.parts.picture_stress,
            annotations=self.config.annotations,
            marks=marks,
            reuse=reuse or self.record["engine"].get("reuse"),
        )


@contextmanager
def _damage(file: Path, way_out: str) -> Iterator[None]:
    """Turn a ValueError about the content of a file into a RunLogError."""
    try:
        yield
    except ValueError as error:
        raise RunLogError(f"{file} is damaged: {error}; {way_out}") from error


def find_run(output: Path, which: str) -> RunData:
    """Return the run that `recent`, a name or a path means. RunLogError if there is none."""
    if which == "recent":
        runs = list_runs(output)
        if not runs:
            raise RunLogError(f"there is no run in {output} yet: {NO_RUNS}")
        return RunData(runs[-1])
    for path in (output / which, Path(which)):
        if path.is_dir():
            return RunData(path)
    near = did_you_mean(which, [path.name for path in list_runs(output)])
    raise RunLogError(f"there is no run {which!r}, neither in {output} nor as a path{near}")


def list_runs(output: Path) -> list[Path]:
    """Return the run folders in `output`, oldest first."""
    if not output.is_dir():
        return []
    folders = (path for path in output.iterdir() if not path.name.startswith("."))
    return sorted(path for path in folders if (path / "config.json").is_file())
