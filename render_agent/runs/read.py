"""Reads run folders: `RunData` is the interface to a run on disk for everything above `runs`."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import SCORED, QuestionState, SceneSource
from render_agent.dialogue.turn import LogLine, Turn
from render_agent.engines.prices import Price
from render_agent.engines.sight_check import sight_caveat
from render_agent.errors import RunLogError, SceneError, SetupError
from render_agent.options import RunConfig, fingerprint_of
from render_agent.runs.build import Parts, build
from render_agent.runs.inputs import (
    QUESTIONS,
    machine_note,
    recorded_inputs,
    scan_files_of,
    scene_notes,
)
from render_agent.runs.log.lines import (
    question_from_json,
    questions_text,
    read_line,
    replay,
)
from render_agent.runs.log.results import results
from render_agent.runs.log.row import NO_MARKS, Marks, Row, cost_of, row_of
from render_agent.runs.log.schema import Record, Results, check_format
from render_agent.runs.run_part import run_parts
from render_agent.scans.cache import SceneCache
from render_agent.score.summary import OFFICIAL
from render_agent.tasks.ground_truth import Facts, load_facts
from render_agent.tasks.input_files import InputFile, Section, changed_files
from render_agent.util.atomic_files import read_json, read_lines
from render_agent.util.contained_paths import check_links, image_path
from render_agent.util.display import first_names
from render_agent.util.file_digests import digests_of, sha256
from render_agent.util.reasons import did_you_mean, truncate
from render_agent.util.safe_parse import convert, parse_json

logger = logging.getLogger(__name__)

# Remedy if a folder contains no runs.
NO_RUNS = "Start one with --batch or --ply, or pass --runs DIR (with --continue: --output DIR)."


class NoScenes:
    """Placeholder for the scenes of a run that is only read: no scan is opened."""

    def get(self, question: Question) -> NoReturn:
        raise SceneError(f"the scan of question {question.id} is not available when reading a log")


NO_SCENES = NoScenes()


class RunData:
    """One run on disk, finished or not; `RunLog` writes it.

    Every part is read only once, on first use. Call `reload` to update a run in progress.
    """

    finished: (
        bool  # True if `results.json`, which is written last, existed before anything else was read
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        if not (path / "config.json").is_file():
            raise RunLogError(f"{path} is not a run folder: it has no config.json", "not a run")
        check_links(path)
        file = path / "config.json"
        self.record: dict[str, Any] = read_json(file)
        check_format(path, self.record)
        with _damage(file, "Restore the file."):
            convert(self.record, Record)
        self.reload()

    def reload(self) -> None:
        """Discard the questions, turns and results that were read."""
        for name in vars(self).keys() - {"path", "name", "record", "config"}:
            del vars(self)[name]
        self.finished = (self.path / "results.json").is_file()

    @cached_property
    def config(self) -> RunConfig:
        """The options of the run. Raises RunLogError if `config.json` was edited."""
        options = self.record["config"]
        if fingerprint_of(options) != self.record["fingerprint"]:
            raise RunLogError(
                f"{self.path / 'config.json'} was edited after the run started: its options do not match their"
                " fingerprint. Undo the change, or start a new run with the options you want."
            )
        with self._other_version():
            return RunConfig.from_json(options)

    @cached_property
    def parts(self) -> Parts:
        """The parts that the options name. Raises RunLogError if a package that provides one is not installed."""
        config = self.config
        with self._other_version():
            return replace(build(config), recorded=self.recorded, price=self.price)

    @contextmanager
    def _other_version(self) -> Iterator[None]:
        try:
            yield
        except SetupError as error:
            raise RunLogError(
                f"{self.path} cannot be read: {error}. It was written by render_agent"
                f" {truncate(self.record['program'], 40)}. Use that version, or a newer one."
            ) from error

    @property
    def model(self) -> str:
        return str(self.record["engine"]["model"])

    @property
    def price(self) -> Price | None:
        """The price of the model, as recorded in `config.json`; None if it is unknown."""
        price: Price | None = convert(self.record.get("price"), Price | None)
        return price

    @cached_property
    def notes(self) -> list[str]:
        """The caveats from `config.json` that must accompany every score of the run."""
        record, parts, config = self.record, self.parts, self.config
        engine_notes = [note for check in self.start_checks for note in check["caveats"]]
        notes = [
            *record["notes"],
            record["engine"].get("note"),
            record["choosing"].get("note"),
            parts.view_policy.note(config.view_types, config.max_turns),
            parts.image_stress.note,
            parts.toolset.note,
            f"feedback: the reported pose has errors (--feedback {config.feedback})"
            if parts.pose_faults.any
            else None,
            machine_note(record["engine"]),
            sight_caveat(self.sight_checks),
            *dict.fromkeys(engine_notes),
        ]
        if self.changed_questions is not None:
            notes.append(
                f"{QUESTIONS} has changed since the run started (different SHA-256): the scores are those of the changed"
                " questions and ground truths"
            )
        notes += [note for part in run_parts() for note in part.notes(self)]
        return [note for note in notes if note]

    @property
    def sight_checks(self) -> list[dict[str, Any]]:
        """The results of the sight checks from `config.json`: at the start, and each time the run was resumed."""
        checks: list[dict[str, Any]] = self.record.get("sight_checks", [])
        return checks

    @property
    def start_checks(self) -> list[dict[str, Any]]:
        """The results of the start checks from `config.json`, one per different list of caveats."""
        checks: list[dict[str, Any]] = self.record.get("start_checks", [])
        return checks

    @cached_property
    def recorded(self) -> dict[str, Any]:
        """SHA-256 of the inputs by section and name; older runs lack some sections."""
        return recorded_inputs(self.record, self.turns)

    def opened_files(self, scans: Collection[Path | None]) -> set[str]:
        """Return the files, besides the scans themselves, that were opened to read scans of the run."""
        of_older_run = self.record.get("scan_parts", {})
        names = {name for scan in scans for name in of_older_run.get(str(scan), ())}
        ids = {q.id for q in self.questions if q.scan in scans} if self.turns else set()
        opened = [scan_files_of(line) for line in self.turns if line.question_id in ids]
        return names.union(*opened)

    @cached_property
    def changed_questions(self) -> InputFile | None:
        """The file `questions.jsonl` if its questions differ from those at the start of the run; None in older runs."""
        digest, file = self.recorded.get(QUESTIONS), self.path / QUESTIONS
        if digest is None or not file.is_file() or sha256(file) == digest:
            return None
        if hashlib.sha256(questions_text(self._read_questions())).hexdigest() == digest:
            return None  # only ignored keys were added
        return InputFile("questions", str(file), sha256(file))

    @cached_property
    def changed_annotations(self) -> list[InputFile]:
        """The annotation files that have changed since the run started. They are not used."""
        return self._changed_files("annotations")

    @cached_property
    def changed_scans(self) -> list[InputFile]:
        """The scans, and files of scans, that have changed since the run started. They are not used."""
        return self._changed_files("scans")

    def _changed_files(self, section: Section) -> list[InputFile]:
        """Return the changed files of scenes, and warn of them."""
        changes = changed_files(section, self.recorded.get(section, {}))
        for note in scene_notes(changes):
            logger.warning("%s: %s", self.name, note)
        return changes

    def refuse_changes(self, *, scenes: bool) -> None:
        """Check that the run can be combined with others."""
        changes = [] if self.changed_questions is None else [self.changed_questions]
        if scenes:
            of_scenes = [*self.changed_scans, *self.changed_annotations]
            changes += [file for file in of_scenes if file.digest is not None]
        if changes:
            raise RunLogError(f"{changes[0]}. Restore it, or omit {self.path}.", "changed")

    @property
    def scene_notes(self) -> list[str]:
        """The caveats about scene-based results if files of scenes have changed since the run started."""
        return scene_notes([*self.changed_scans, *self.changed_annotations])

    @cached_property
    def result_notes(self) -> list[str]:
        """The caveat that `results.json` is not of this run, for example copied from another; it is not used then."""
        if self.stored_results is None:
            return []
        logged: dict[str, list[Turn]] = {}
        for line in self.turns:
            if isinstance(line, Turn):
                logged.setdefault(line.question_id, []).append(line)
        rows = self.stored_results["questions"]
        # a resumed run may have answered other questions since
        is_same = all(
            row["status"] not in SCORED or _fits(row, logged.get(row["question_id"], ()))
            for row in rows
        )
        if is_same and logged.keys() <= {row["question_id"] for row in rows}:
            return []
        note = f"{self.path / 'results.json'} is not of this run: it does not fit turns.jsonl and is not used"
        logger.warning("%s: %s", self.name, note)
        return [note]

    @cached_property
    def image_notes(self) -> list[str]:
        """The caveat that images have been replaced or removed since the run."""
        turns = [turn for state in self.dialogues for turn in state.turns]
        recorded = {file: digest for turn in turns for file, digest in turn.sha256.items()}
        digests = {image_path(self.path, file): digest for file, digest in recorded.items()}
        current = digests_of(digests)
        if not (names := [str(path) for path in digests if current[path] != digests[path]]):
            return []
        note = f"{first_names(names)} changed since the run started (different SHA-256): not what the model saw"
        logger.warning("%s: %s", self.name, note)
        return [note]

    @property
    def file_notes(self) -> list[str]:
        """The caveats about files of the folder that do not fit its log."""
        return [*self.result_notes, *self.image_notes]

    @property
    def has_questions(self) -> bool:
        """True if the questions are known: `questions.jsonl`, which is written after `config.json`, exists or is
        withheld.
        """
        return (self.path / QUESTIONS).is_file() or bool(self.record.get("questions_withheld"))

    @cached_property
    def questions(self) -> list[Question]:
        """The questions in run order. Raises RunLogError if the run was killed before they were written.

        The questions of an unfinished MCP session are selected again.
        """
        if not self.has_questions:
            raise RunLogError(
                f"{self.path} has no questions yet. Resume with: render-agent --continue {self.path}"
            )
        if self.changed_questions is not None:
            logger.warning(
                "%s; scores and pages are those of the changed file", self.changed_questions
            )
        if not (self.path / QUESTIONS).is_file():
            return self._withheld_questions()
        return self._read_questions()

    def _withheld_questions(self) -> list[Question]:
        """Select the questions of an MCP session, whose folder has none before its end because of their ground truths."""
        with self._other_version():
            questions = self.parts.questions()
        if hashlib.sha256(questions_text(questions)).hexdigest() != self.recorded.get(QUESTIONS):
            raise RunLogError(
                f"{self.path} is of an MCP session that did not end, and its options now select other questions. Restore"
                " the benchmark's files.",
                "changed",
            )
        return questions

    def _read_questions(self) -> list[Question]:
        file = self.path / QUESTIONS
        return read_lines(file, lambda line: question_from_json(parse_json(line)))[0]

    @cached_property
    def turns(self) -> list[LogLine]:
        """The complete lines of `turns.jsonl`; empty if it does not exist. Raises RunLogError if a line is damaged."""
        file = self.path / "turns.jsonl"
        return read_lines(file, read_line)[0] if file.exists() else []

    def lines(self) -> list[dict[str, Any]]:
        """Return the same lines as plain JSON values."""
        file = self.path / "turns.jsonl"
        lines: list[dict[str, Any]] = read_lines(file)[0] if file.exists() else []
        return lines

    @cached_property
    def dialogues(self) -> list[QuestionState]:
        """The questions and their counterparts with their turns, in run order. Opens no scan."""
        return self.read_states()

    @property
    def states(self) -> list[QuestionState]:
        """The questions without counterparts."""
        return [state for state in self.dialogues if not state.question.is_counterpart]

    @property
    def counterparts(self) -> list[QuestionState]:
        return [state for state in self.dialogues if state.question.is_counterpart]

    @cached_property
    def rows(self) -> dict[str, Row]:
        stress, billing = self.parts.image_stress, self.parts.billing
        return {state.id: row_of(state, stress, billing) for state in self.dialogues}

    def select(self, question_ids: Collection[str], name: str) -> RunData:
        """Return a renamed copy of this run restricted to the given questions, including `states`, `rows` and
        `results`.
        """
        run = copy(self)
        run.name = name
        run.dialogues = [state for state in self.dialogues if state.id in question_ids]
        for part in ("rows", "results", "image_notes"):
            run.__dict__.pop(part, None)
        return run

    def facts(self, questions: Iterable[Question]) -> dict[str, Facts]:
        """Return the ground truth of the questions' scenes, by scene, from files that have not changed since the run."""
        changed_paths = {Path(file.name) for file in self.changed_annotations}
        return load_facts(questions, self.config, changed_paths)

    def read_states(self, scenes: SceneSource = NO_SCENES) -> list[QuestionState]:
        """Return new states of the questions with their turns; `scenes` provides their scenes."""
        parts = self.parts
        states = [
            QuestionState(question, scenes, parts.config.max_turns, blind=parts.blind)
            for question in self.questions
        ]
        self.replay(states)
        return states

    def replay(self, states: Iterable[QuestionState]) -> None:
        """Apply all logged turns to their states. Raises RunLogError if a line does not fit."""
        with _damage(self.path / "turns.jsonl", "Restore the file."):
            replay(self.turns, {state.id: state for state in states})

    @cached_property
    def scenes(self) -> SceneCache:
        """The scenes shown to the questions, each read on first use."""
        _ = self.changed_scans  # so that changed scans are reported once, and not read
        return self.parts.scenes(self.questions)

    @cached_property
    def saved_results(self) -> dict[str, Any] | None:
        """The content of `results.json`; None if the run is unfinished. Raises RunLogError if it is damaged.

        Results of versions whose types and rows were of parsed answers are computed again from the log.
        """
        saved = self.stored_results
        return saved if saved is None or "not_in_form" in saved else self.results

    @cached_property
    def stored_results(self) -> dict[str, Any] | None:
        """The content of `results.json` as it is; see `saved_results`."""
        if not self.finished:
            return None
        file = self.path / "results.json"
        remedy = f"Delete it, then run render-agent --continue {self.path}"
        results: dict[str, Any] = read_json(file, remedy)
        with _damage(file, remedy):
            convert(results, Results)
        return results

    @property
    def final_results(self) -> dict[str, Any] | None:
        """The results of a finished run: `results.json`, or computed from the log if the file is not of this run."""
        return self.results if self.result_notes else self.saved_results

    @cached_property
    def results(self) -> dict[str, Any]:
        """The results computed from the log, like `results.json`; also for an unfinished run."""
        return self.score(self.dialogues)

    def score(
        self,
        states: Sequence[QuestionState],
        parser: str = OFFICIAL,
        marks: Marks = NO_MARKS,
        reuse: str | None = None,
    ) -> dict[str, Any]:
        """Compute the results of the given questions of this run."""
        if reuse is None:
            with suppress(RunLogError):
                reuse = (self.stored_results or {}).get("reuse")
        return results(self, states, parser, marks, reuse)


def _fits(row: Mapping[str, Any], turns: Sequence[Turn]) -> bool:
    """Return True if a row of `results.json` can be of a question with these turns."""
    cost, answer = cost_of(turns), row["answer_text"]
    return (
        row["turns"] == len(turns)
        and all(row[name] == cost[name] for name in ("tokens_in", "tokens_out"))
        and (answer is None or answer in [turn.answer_text for turn in turns])
    )


@contextmanager
def _damage(file: Path, remedy: str) -> Iterator[None]:
    """Convert a ValueError about the content of a file to a RunLogError."""
    try:
        yield
    except ValueError as error:
        raise RunLogError(f"{file} is damaged: {error}. {remedy}") from error


def find_run(output: Path, name: str, remedy: str = NO_RUNS) -> RunData:
    if name == "recent":
        runs = list_runs(output)
        if not runs:
            raise RunLogError(f"no runs in {output}. {remedy}")
        return RunData(runs[-1])
    for path in (output / name, Path(name)):
        if path.is_dir():
            return RunData(path)
    suggestion = did_you_mean(name, [path.name for path in list_runs(output)])
    raise RunLogError(f"there is no run {name!r} in {output} or at that path{suggestion}")


def list_runs(output: Path) -> list[Path]:
    """Return the run folders in `output`, oldest first."""
    if not output.is_dir():
        return []
    folders = (path for path in output.iterdir() if not path.name.startswith("."))
    return sorted(path for path in folders if (path / "config.json").is_file())
