"""The options of a run as keywords of `run`, `ask`, `continue_run` and `load_engine`: typed, for editors and mypy.

`tests/api/test_keywords.py` compares them with the declarations in `config/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict

Path = str | PathLike[str]


class ContinueOptions(TypedDict, total=False):
    """What may differ when a run is continued; None stands for what is not given."""

    base_url: str | Sequence[str] | None
    """Where the server of --engine openai answers, such as http://localhost:8000/v1; may be given more than once."""

    max_batched_turns: int | None
    """Turns that all active questions take together first."""

    finish_together: int | Literal["auto"] | None
    """How many questions finish side by side after the batched turns; 1 is one after the other."""

    batch_size: int | Literal["auto"] | None
    """Requests in one call of the model, or under way at once; auto is what memory holds."""

    devices: str | Sequence[str] | None
    """One replica of the model on each of these devices, such as cuda:0,cuda:1."""

    workers: int | None
    """Processes that share the questions, scene by scene."""

    ray: str | None
    """The Ray cluster that the workers run on (default: this machine)."""

    max_failures: str | None
    """Failed questions after which the run stops, a number or a share of them; auto is five in a row."""

    port: int | None
    """Port of the page of --engine human; 0 is any that is free."""

    log_to: str | Sequence[str] | None
    """Also log the run to this tool, as it goes on and at its end; may be given more than once."""

    verbose: bool | None
    """Print every turn."""


class AskOptions(ContinueOptions, total=False):
    """All options but those that `ask` and `load_engine` take by themselves."""

    up: Literal["auto", "z", "-z", "y", "-y", "x", "-x"] | None
    """The axis of the scans' files that points up; auto is what a file or its format says, else z."""

    unit: Literal["auto", "m", "cm", "mm", "ft", "in"] | None
    """The unit of the scans' files; auto is what a file or its format says, else metres, and a scan that is as large or as small as no room is refused."""

    benchmark: Path | None
    """Which questions: vsibench, rooms (bundled, needs nothing), sqa3d, scanqa, openeqa, revsi, or a file of questions."""

    questions: Path | None
    """The benchmark's own questions, its authors' file. VSI-Bench's: a file (jsonl, json, parquet, or VLMEvalKit's tsv), its folder, or a name on the hub (default: test.jsonl where it lies, else nyu-visionx/VSI-Bench)."""

    subset: Literal["full", "debiased", "tiny"] | None
    """Which of VSI-Bench's questions."""

    tiny_ids: Path | None
    """The ids of VSI-Bench(tiny), one a line (default: tiny_ids.txt beside the questions)."""

    removed_ids: Path | None
    """The ids that debiased leaves out (default: the column pruned, else debiased_removed_ids.txt beside the questions)."""

    scannet: Path | Sequence[Path] | None
    """Where ScanNet lies; may be given more than once."""

    scannet_splats: Path | Sequence[Path] | None
    """Where ScanNet's rooms lie as splats, as in GaussianWorld/scannet_mcmc_3dgs; may be given more than once. They are aligned as the scans in --scannet say."""

    scannetpp: Path | Sequence[Path] | None
    """Where ScanNet++ lies; may be given more than once."""

    arkitscenes: Path | Sequence[Path] | None
    """Where ARKitScenes lies; may be given more than once."""

    scans: Literal["any", "mesh", "cloud", "splat"] | None
    """Only scans of this kind; any takes a scene's mesh, else its cloud, else its splat."""

    annotations: Path | None
    """VSI-Bench's official annotations: rooms of coloured boxes stand in for scans that are not found."""

    allow_missing: bool | None
    """Go on without the scans that are not found; their questions are MISSING, and every figure says so."""

    limit: int | None
    """At most so many questions; the run is stamped PARTIAL."""

    type: str | Sequence[str] | None
    """Only this question type; may be given more than once."""

    dataset: str | Sequence[str] | None
    """Only this data set: scannet, scannetpp, arkitscenes; may be given more than once."""

    scene: str | Sequence[str] | None
    """Only this scene; may be given more than once."""

    id: str | Sequence[str] | None
    """Only the question with this id; may be given more than once."""

    exclude: Path | None
    """Without the questions whose ids this file has, one a line, as render-agent audit --to writes it."""

    shuffle: bool | None
    """Choose the questions in an order drawn from the seed."""

    shard: str | None
    """Only part I of N of the scenes, such as 2/8; render-agent merge joins the parts."""

    change: str | Sequence[str] | None
    """Ask every question once more with one thing changed: in the room (remove:CATEGORY, add:CATEGORY, move, swap, recolour, scale:X, rotate) or in its words (order, letters, units:cm, inverse, names); may be given more than once."""

    change_at: int | None
    """Change the room in the midst of the dialogue: views from this turn on show it changed."""

    revision: str | None
    """Revision of the model."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] | None
    """Number format of the weights."""

    device: str | None
    """Where the model runs: auto, cpu, cuda, cuda:1 …"""

    tensor_parallel: int | None
    """GPUs that hold one model together."""

    max_model_len: int | None
    """The most tokens of a dialogue; the question of a longer one fails."""

    engine_option: str | Sequence[str] | None
    """An option of the engine, passed on unchanged; may be given more than once."""

    thinking: Literal["auto", "on", "off"] | None
    """Whether the model thinks before it replies: on, off, or as its chat template does by itself."""

    thinking_budget: int | None
    """The most tokens of thought a turn, beside those of the reply: then the thought is closed."""

    no_guide: bool | None
    """Do not hold replies to their JSON schema where the engine could."""

    max_turns: int | None
    """The most turns that a question has; in the last one it must answer."""

    image_size: tuple[int, int] | str | None
    """Size of every view in pixels."""

    field_of_view: float | None
    """Horizontal field of view in degrees."""

    kinds: str | Sequence[str] | None
    """Kinds of view that may be asked for; the first is shown where none is."""

    views: str | None
    """Who chooses the views: free, the model; else all are shown at once: the first one (start), four around it, the map (top), a random walk, a tour of the room, those that show what the question names (oracle); or none, and it needs no scans."""

    pictures: str | None
    """What the views show: the scene; black; noise; another question's scene (shuffled); the scene mirrored, left for right."""

    tools: str | None
    """What helps the model beside views: none; exact measurements of pixels and points that it asks for (measure); or, in the place of views, a text of the true scene graph (graph)."""

    start: str | None
    """Where the camera begins: best (faces the most to see), middle, or a pose."""

    renderer: str | None
    """What draws the views."""

    probe: str | Sequence[str] | None
    """What the model is asked to believe after its turns, beside the dialogue: map (which objects are where), counts, pose (where it stands), seen (what it has not seen yet); several with commas."""

    probe_every: int | None
    """After every how many turns it is asked; after the last one it always is."""

    temperature: float | None
    """Sampling temperature; 0 is greedy."""

    seed: int | None
    """All randomness comes from it and the question's id."""

    max_new_tokens: int | None
    """The most tokens of one reply."""

    agent: str | None
    """How a turn is decided: single, the one reply; vote:K, the answer of K replies; best:K, of K moves the one that verifiers score best, unseen; lookahead:K, of K moves that are made and drawn first (:2 looks two moves ahead); rephrase:RxK, with R wordings of the question; show:K, the model is shown where all K moves lead."""

    verifier: str | Sequence[str] | None
    """What scores the moves: random, geometry (geometry:unnamed knows no boxes), judge[:MODEL], embedding[:MODEL], learned:DIR; may be given more than once (default: geometry where moves are drawn)."""

    verifier_weights: str | Sequence[str | float] | None
    """The weight of every verifier, in their order, such as 1,0.5."""

    fusion: Literal["ranks", "normalised"] | None
    """How the scores of several verifiers are fused: mean of ranks, or of normalised scores."""

    rubric: Path | None
    """By what the judge rates views: a rubric that is shipped, or a file."""

    judge_mode: Literal["yes", "json", "pairwise"] | None
    """How the judge rates: its probability of yes, criteria in JSON, or pairs."""


class RunOptions(AskOptions, total=False):
    """All options of a run."""

    batch: bool | None
    """Run a benchmark."""

    ply: Path | None
    """Ask one question of this scan (PLY, GLB, OBJ)."""

    question: str | None
    """The question to ask."""

    option: str | Sequence[str] | None
    """A choice, such as "A. left"; give one --option a choice."""

    model: Path | None
    """A hub name, a directory, or small, the bundled one (default Qwen/Qwen3-VL-8B-Instruct); with --engine scripted: explorer (default), wanderer, random, frequency, oracle, witness, seeker, expert, stumbler, surveyor, or a file of replies."""

    output: Path | None
    """Where run folders lie."""
