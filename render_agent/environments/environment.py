"""`Environment`: the dialogue of a run as a step-by-step environment for training and for custom loops."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from render_agent.api.keywords import RunOptions
from render_agent.api.scenes import ScanInput, read_as, scan_file
from render_agent.dialogue.answer import AnswerForm, canonical_answer
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState, Status
from render_agent.dialogue.turn import Turn
from render_agent.engines.engine import Reply
from render_agent.environments.episode import Episode
from render_agent.environments.rewards import NamedObjectsShown
from render_agent.environments.world import (
    BranchLog,
    QuestionOrder,
    World,
    check_options,
    run_config,
)
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.runs.log.row import score_of
from render_agent.scans.camera import Camera
from render_agent.tasks.selection import single_question
from render_agent.util.display import count_noun
from render_agent.util.numbers import is_finite_number, is_number
from render_agent.util.reasons import short_repr
from render_agent.util.safe_parse import to_plain

# A chat message whose image parts hold PIL images: {"role": …, "content": [{"type": "text" | "image", …}]}.
ChatMessage = dict[str, Any]


class Observation(TypedDict):
    """Input of the policy for its next reply."""

    messages: list[ChatMessage]
    """The messages since the last reply; empty once the episode is over."""
    conversation: list[ChatMessage]
    """The whole dialogue, including the replies."""
    image: NDArray[np.uint8]
    """The newest view, (H, W, 3), RGB; black if nothing is shown."""
    pose: NDArray[np.float64]
    """The camera, (5,): x, y, z in metres, yaw and pitch in degrees; see `Camera`."""
    camera_to_world: NDArray[np.float64]
    """Pose matrix, (4, 4), of the newest view from the camera (not the map); OpenCV axes, metres."""
    intrinsics: NDArray[np.float64]
    """Its camera matrix, (3, 3), in pixels."""


@dataclass(frozen=True, eq=False, repr=False)
class Snapshot:
    """A point in an episode. `Environment.restore` continues from it, also in another process."""

    question: Question
    turns: tuple[Turn, ...]
    replies: tuple[Reply, ...]  # to earlier requests of the unfinished turn
    images: Mapping[str, Image]  # by file; not to be changed
    progress: Any  # of `NamedObjectsShown`
    returns: Mapping[str, float]
    episode: str  # a name for the episode in which it was taken
    num_recorded: int  # turns at the beginning that are in the recording of this episode

    def __repr__(self) -> str:
        return (
            f"<snapshot of question {self.question.id} after {count_noun(len(self.turns), 'turn')}>"
        )


class Environment:
    """One question about one scan, or the questions of a benchmark, as episodes that the caller steps through.

    The interface is Gymnasium's; `gymnasium.make("render_agent/Question-v0", …)` returns the same as a `gymnasium.Env`.
    An episode has exactly the messages of a run in which an engine gives the same replies. The ground truth is never
    part of an observation, and part of `info` only after the episode. Not thread-safe; use `VectorEnvironment` for
    concurrent episodes.

    Args:
        scan: As in `render_agent.ask`.
        question: The question.
        options: The choices of a multiple-choice question.
        ground_truth: The correct answer: a choice or its letter, a number, or a text. None gives no reward for answers.
        rewards: Weight of each term of the reward; by default `{"answer": 1}`. The terms are `answer`, `malformed`,
            `blocked`, `turn`, `visible`, `newly_visible` and `map_error`, and for questions of the type `reach_view`
            `distance`, `angle`, `overlap` and `success`.
        record: Folder in which episodes are recorded as ordinary runs; None writes no files.
        model: A model whose own wording the prompts use, such as `small`. The model is not loaded.
        **run_options: Other options of a run, such as `max_turns`, `image_size` or `views`.

    Raises:
        SetupError: A requirement of an option is missing.
        UsageError: An option is invalid or does not apply to environments.

    >>> import render_agent
    >>> room = render_agent.bundled_rooms()["room00"]
    >>> env = render_agent.Environment(
    ...     room, question="How many chairs are there?", ground_truth=4, max_turns=3
    ... )
    >>> observation, info = env.reset()
    >>> [message["role"] for message in observation["messages"]]
    ['system', 'user']
    >>> observation, reward, terminated, truncated, info = env.step({"rotation_angle_degrees": 90})
    >>> observation, reward, terminated, truncated, info = env.step({"answer": 4, "done": True})
    >>> reward, terminated, info["answer"]
    (1.0, True, '4')
    """

    def __init__(
        self,
        scan: ScanInput,
        question: str,
        *,
        options: Sequence[str] = (),
        ground_truth: str | float | None = None,
        rewards: Mapping[str, float] | None = None,
        record: str | PathLike[str] | None = None,
        model: str | None = None,
        **run_options: Unpack[RunOptions],
    ) -> None:
        check_options(run_options, single=True)
        folder = Path(record or RunConfig(batch=True).output)
        settings: dict[str, Any] = {
            "ply": scan_file(scan, folder / "scans"),
            **read_as(scan),
            "question": question,
            "option": options,
            **run_options,
        }
        config = run_config(settings, model)
        self._set_up(World(config, _with_ground_truth(config, ground_truth), rewards, record))

    @classmethod
    def from_benchmark(
        cls,
        benchmark: str | PathLike[str] = "rooms",
        /,
        ids: Sequence[str] = (),
        *,
        rewards: Mapping[str, float] | None = None,
        record: str | PathLike[str] | None = None,
        model: str | None = None,
        **run_options: Unpack[RunOptions],
    ) -> Environment:
        """Return an environment that cycles through the questions of a benchmark.

        Args:
            benchmark: As in `--benchmark`.
            ids: Ids of the questions; by default, all that the other options select.
            rewards: As for the class.
            record: As for the class.
            model: As for the class.
            **run_options: Other options of a run.

        Raises:
            SetupError: A requirement of an option is missing.
            UsageError: An option is invalid or does not apply to environments.

        >>> import render_agent
        >>> env = render_agent.Environment.from_benchmark("rooms", scene="room00", limit=3)
        >>> observation, info = env.reset(seed=1)
        >>> info["turn"]
        0
        """
        return cls.of_world(World.of_benchmark(benchmark, ids, rewards, record, model, run_options))

    @classmethod
    def of_world(cls, world: World, order: QuestionOrder | None = None) -> Environment:
        """Return an environment that shares a world, and a question order if given, with others."""
        env = cls.__new__(cls)
        env._set_up(world, order)
        return env

    def _set_up(self, world: World, order: QuestionOrder | None = None) -> None:
        self.world = world
        self._order = order or QuestionOrder(world.questions)
        self._episode: Episode | None = None
        self._objects: NamedObjectsShown | None = None
        self._return: dict[str, float] = {}
        self._name = ""  # of the episode
        self._num_recorded = 0

    def __getstate__(self) -> tuple[World, QuestionOrder, Snapshot | None]:
        return self.world, self._order, None if self._episode is None else self.snapshot()

    def __setstate__(self, state: tuple[World, QuestionOrder, Snapshot | None]) -> None:
        world, order, snapshot = state
        self._set_up(world, order)
        if snapshot is not None:
            self.restore(snapshot)

    def __deepcopy__(self, memo: Any) -> Environment:
        env = Environment.__new__(Environment)
        world, order, snapshot = self.__getstate__()
        env.__setstate__((world, deepcopy(order), snapshot))
        return env

    @property
    def state(self) -> QuestionState:
        """The question of the current episode with its turns; contains the ground truth.

        Raises:
            UsageError: There is no episode.
        """
        return self._running.state

    @property
    def score(self) -> float | None:
        """The official score of the current episode, 0 to 1; None without ground truth or before its end."""
        state = self.state
        return None if state.active else score_of(state)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start the next episode.

        Args:
            seed: Shuffles the questions from now on; None keeps the current order.
            options: `{"id": …}` chooses the question.

        Returns:
            The first observation and `info`.

        Raises:
            UsageError: There is no question with this id, or no such option; or the environment is closed, or was
                created before this process was forked.
            SceneError: The scan cannot be read.
            RenderError: The scan cannot be rendered.
        """
        if unknown := set(options or ()) - {"id"}:
            raise UsageError(f"reset has no option {min(unknown)!r}. Its only option is id.")
        if seed is not None:
            self._order = QuestionOrder(self.world.questions, seed)
        return self.start(self._find(str(options["id"])) if options else self._order.next())

    def start(self, question: Question) -> tuple[Observation, dict[str, Any]]:
        """Start an episode about a question of this environment, otherwise like `reset`."""
        self.leave()
        self._episode, self._objects = self.world.start(question)
        self._name, self._num_recorded = secrets.token_hex(8), 0
        self._return = dict.fromkeys(self.world.rewards.weights, 0.0)
        self._objects.step(self._views())
        return self._observation(), self._info({}, None)

    def step(
        self, reply: str | Mapping[str, Any], *, finish: Literal["stop", "length"] = "stop"
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Reply to the current observation.

        Args:
            reply: The policy's text, or the fields of a reply as a mapping, whose values may be numpy's.
            finish: `length` if the policy reached its token limit; the next message then says so.

        Returns:
            The next observation, the reward, whether the policy declared itself done, whether it is out of turns, and
            `info`: `question_id`, `turn`, `probe` (whether the next reply answers a probe), `restates` (whether it only
            restates the answer of the last turn), `rewards` (by term), `returns` (their sums over the episode). If the
            step completed a turn: `malformed` (the reason, if the reply could not be read), `outcome` (of the move, if
            there was one). After the end of the episode, it also contains `status`, and `answer` and `ground_truth` if
            there is one. An entry without a value is absent.

        Raises:
            UsageError: There is no episode, or it is over; the reply is neither a text nor a mapping of JSON values; or
                as in `reset`.
            RenderError: The next view cannot be rendered.
        """
        self.world.require_open()
        episode, objects = self._running, self._objects
        if episode.is_over or objects is None:
            raise UsageError("the episode is over. Call reset first.")
        is_over = episode.answer(Reply((_reply_text(reply),), finish=finish))
        step = objects.step(self._views())
        rewards = self.world.rewards.of(step)
        for name, value in rewards.items():
            self._return[name] += value
        status = episode.state.status
        if is_over:
            self.world.end(episode)
        return (
            self._observation(),
            float(sum(rewards.values())),
            status is Status.ANSWERED,
            status is Status.EXHAUSTED,
            self._info(rewards, step.turn),
        )

    def snapshot(self) -> Snapshot:
        """Return the current point of the episode, for tree search, best-of-N sampling and replay.

        Snapshots are small (the turns, and the images of the episode), can be pickled, and stay valid after `reset` and
        `close`. A recorded episode with snapshots is written to the run folder when it ends or is left, with the turns
        of its last branch only.

        Returns:
            The snapshot.

        Raises:
            UsageError: There is no episode.

        >>> import render_agent
        >>> env = render_agent.Environment.from_benchmark("rooms", limit=1, image_size="64x48")
        >>> observation, info = env.reset()
        >>> start = env.snapshot()
        >>> turned = env.step({"rotation_angle_degrees": 90})
        >>> observation, info = env.restore(start)
        >>> info["turn"], start
        (0, <snapshot of question 0 after 0 turns>)
        """
        episode, objects = self._running, self._objects
        assert objects is not None
        log = episode.turns.log
        files = {file for turn in episode.state.turns for file in turn.image_files}
        files |= {view.file for view in self._views()}
        snapshot = Snapshot(
            question=episode.state.question,
            turns=tuple(episode.state.turns),
            replies=tuple(episode.replies),
            images={file: log.images.get(file) for file in sorted(files)},
            progress=objects.progress,
            returns=dict(self._return),
            episode=self._name,
            num_recorded=self._num_recorded
            if isinstance(log, BranchLog)
            else len(episode.state.turns),
        )
        if not isinstance(log, BranchLog) and not episode.is_over:
            self.restore(snapshot)  # which holds back later turns
        return snapshot

    def restore(self, snapshot: Snapshot) -> tuple[Observation, dict[str, Any]]:
        """Leave the current branch or episode and continue from a snapshot of this or of an equal environment.

        Args:
            snapshot: The result of `snapshot`. The order of the questions after this episode is not restored.

        Returns:
            The observation of that point, byte for byte, and `info` without rewards.

        Raises:
            UsageError: There is no such question in this environment; or as in `reset`.
            SceneError: The scan cannot be read.
            RenderError: The scan cannot be rendered.
        """
        if snapshot.question not in self.world.questions:
            raise UsageError(f"{snapshot!r} is of a question that this environment does not have")
        recording, num_recorded = None, 0
        if (
            self._episode is not None
            and not self._episode.is_over
            and self._name == snapshot.episode
        ):
            log, num_recorded = self._episode.turns.log, snapshot.num_recorded
            recording = log.recording if isinstance(log, BranchLog) else log
            self._episode = None
        else:
            self.leave()
            self._name = secrets.token_hex(8)
        if recording is None and self.world.recorder is not None:
            recording = self.world.recorder.open(snapshot.question)
        branch = BranchLog(snapshot.images, recording, snapshot.turns[num_recorded:])
        self._episode, self._objects = self.world.start(snapshot.question, branch, snapshot.turns)
        for reply in snapshot.replies:
            self._episode.answer(reply)
        self._objects.progress = snapshot.progress
        self._return = dict(snapshot.returns)
        self._num_recorded = num_recorded
        if self._episode.is_over:
            self.world.end(self._episode)
        return self._observation(), self._info({}, None)

    async def areset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Run `reset` in a thread."""
        return await asyncio.to_thread(self.reset, seed=seed, options=options)

    async def astep(
        self, reply: str | Mapping[str, Any], *, finish: Literal["stop", "length"] = "stop"
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Run `step` in a thread."""
        return await asyncio.to_thread(self.step, reply, finish=finish)

    def render(self) -> NDArray[np.uint8]:
        """Return the newest view, (H, W, 3) uint8; black if nothing is shown."""
        views = self._views()
        if not views:
            width, height = self.world.config.image_size
            return np.zeros((height, width, 3), np.uint8)
        return np.array(self._running.turns.log.images.get(views[-1].file))

    def leave(self) -> None:
        """Leave the current episode. If it is not over, it stays unfinished."""
        if self._episode is not None and not self._episode.is_over:
            self.world.end(self._episode)
        self._episode = None

    def close(self) -> None:
        """Free the renderer and finish the recorded run."""
        self.leave()
        self.world.close()

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _running(self) -> Episode:
        if self._episode is None:
            raise UsageError("there is no episode. Call reset first.")
        return self._episode

    def _find(self, name: str) -> Question:
        for question in self.world.questions:
            if question.id == name:
                return question
        raise UsageError(f"there is no question {name!r} in this environment")

    def _views(self) -> Sequence[Any]:
        episode = self._running
        return episode.state.views if episode.request is None else episode.request.views

    def _observation(self) -> Observation:
        episode, size = self._running, self.world.config.image_size
        get_image = episode.turns.log.images.get
        request = episode.request
        dialogue = episode.state.dialogue if request is None else request.messages
        conversation = [_with_images(message, get_image) for message in dialogue]
        cameras = [view.camera for view in self._views() if view.kind != "top"]
        camera = next((c for c in reversed(cameras) if isinstance(c, Camera)), Camera((0, 0, 0)))
        pose = self._pose()
        return {
            "messages": [_with_images(message, get_image) for message in episode.new_messages],
            "conversation": conversation,
            "image": self.render(),
            "pose": np.array([*pose.position, pose.yaw, pose.pitch]),
            "camera_to_world": camera.pose,
            "intrinsics": camera.intrinsics(*size),
        }

    def _pose(self) -> Camera:
        request, state = self._running.request, self._running.state
        if request is not None and request.probe is not None:
            return request.probe.camera
        if state.camera is not None:
            return state.camera
        cameras = [view.camera for view in self._views() if isinstance(view.camera, Camera)]
        return cameras[0] if cameras else Camera((0.0, 0.0, 0.0))

    def _info(self, rewards: Mapping[str, float], turn: Turn | None) -> dict[str, Any]:
        """Return the `info` of a step, and of the turn that it completed if it did."""
        episode = self._running
        state, request = episode.state, episode.request
        info: dict[str, Any] = {
            "question_id": state.id,
            "turn": len(state.turns),
            "probe": request is not None and request.probe is not None,
            "restates": request is not None and request.restates,
            "rewards": dict(rewards),
            "returns": dict(self._return),
        }
        if turn is not None:
            info["malformed"] = getattr(turn.action, "reason", None)
            info["outcome"] = turn.outcome and _without_none(to_plain(turn.outcome))
        if request is None:
            info["status"] = str(state.status)
            info["answer"] = state.answer
            info["ground_truth"] = state.question.ground_truth
        return _without_none(info)


def _without_none(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that have a value: vector environments of Gymnasium expect one type per key."""
    return {name: value for name, value in info.items() if value is not None}


def _with_ground_truth(config: RunConfig, ground_truth: str | float | None) -> list[Question]:
    """Return the question of `--ply` with a ground truth."""
    question = single_question(config)
    if ground_truth is None:
        return [question]
    text = _truth_text(ground_truth)
    form: AnswerForm = question.answer_form
    if form == "text" and is_number(text) and isfinite(float(text)):
        form = "number"
    truth = canonical_answer(text, form, question.options)
    if truth is None:
        what = "none of the options" if question.options else f"not a {form}"
        raise UsageError(f"the ground truth {short_repr(text)} is {what}")
    return [replace(question, answer_form=form, ground_truth=truth)]


def _truth_text(truth: Any) -> str:
    """Return a ground truth as text, with all digits of a number."""
    if isinstance(truth, str):
        return truth.strip()
    if not is_finite_number(truth):
        raise UsageError(f"the ground truth {short_repr(truth)} is neither a text nor a number")
    number = float(truth)
    return str(int(number)) if number.is_integer() else repr(number)


def _reply_text(reply: object) -> str:
    """Return a reply as text; raise UsageError if it is not one."""
    if isinstance(reply, str):
        return reply
    if not isinstance(reply, Mapping):
        raise UsageError(
            f"the reply {short_repr(reply)} is neither a text nor a mapping of a reply's fields"
        )
    try:
        return json.dumps(dict(reply), default=_from_array)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the reply {short_repr(reply)} is not JSON: {error}") from error


def _from_array(value: Any) -> Any:
    """Return numbers and arrays of numpy, and tensors, as JSON values."""
    return value.tolist() if hasattr(value, "tolist") else to_plain(value)


def _with_images(message: ChatMessage, get_image: Callable[[str], Image]) -> ChatMessage:
    """Return a copy of a message with its image files replaced by copies of the images."""
    content = [
        {**piece, "image": get_image(piece["image"]).copy()}
        if piece["type"] == "image"
        else dict(piece)
        for piece in message["content"]
    ]
    return {
        name: content if name == "content" else deepcopy(value) for name, value in message.items()
    }
