"""Run options as keyword arguments, for type checkers and editors. Written by scripts/keywords.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

Path = str | PathLike[str]
Texts = str | Sequence[str]
Paths = Path | Sequence[Path]
CountOrAuto = int | Literal["auto"]


class RunOptions(TypedDict, total=False):
    """Options of a run, as described by `render-agent --help-all`. None means unset."""

    # questions
    up: str | None
    unit: str | None
    benchmark: Path | None
    questions: Path | None
    subset: str | None
    scannet: Paths | None
    scannetpp: Paths | None
    arkitscenes: Paths | None
    annotations: Path | None
    boxes: Path | None
    boxes_up: str | None
    boxes_unit: str | None
    allow_missing: bool | None
    limit: int | None
    type: Texts | None
    dataset: Texts | None
    scene: Texts | None
    id: Texts | None
    exclude: Path | None
    shuffle: bool | None
    shard: str | None
    change: Texts | None
    # engine
    base_url: Texts | None
    sight_check: str | None
    revision: str | None
    dtype: str | None
    device: str | None
    tensor_parallel: int | None
    max_model_len: int | None
    engine_option: Texts | Mapping[str, Any] | None
    thinking: str | None
    thinking_budget: int | None
    reproducible: str | None
    no_guide: bool | None
    prices: Path | None
    # speed
    max_batched_turns: int | None
    batch_jobs: bool | None
    finish_together: CountOrAuto | None
    batch_size: CountOrAuto | None
    devices: Texts | None
    workers: int | None
    ray: str | None
    no_self_check: bool | None
    max_failures: str | None
    max_cost: float | None
    # dialogue
    max_turns: int | None
    image_size: tuple[int, int] | str | None
    field_of_view: float | None
    view_types: Texts | None
    views: str | None
    frames: Path | None
    image_stress: str | None
    tools: str | None
    reply_protocol: str | None
    history: str | None
    feedback: str | None
    confidence: str | None
    start: str | None
    no_restate: bool | None
    renderer: str | None
    probe: Texts | None
    temperature: float | None
    seed: int | None
    max_new_tokens: int | None
    # choosing
    agent: str | None
    verifier: Texts | None
    rubric: Path | None
    judge_mode: str | None
    # place
    port: int | None
    # display
    log_to: Texts | None
    verbose: bool | None
