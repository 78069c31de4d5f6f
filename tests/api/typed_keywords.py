"""Type checks of the keyword arguments of `render_agent.run` and others. `make lint` runs mypy on it; it is not executed.

If mypy accepts a line marked with `type: ignore`, it reports the unused mark.
"""

from pathlib import Path

import render_agent


def accepted() -> None:
    render_agent.run(benchmark="rooms", engine="scripted", limit=3, image_size=(64, 48))
    render_agent.run(questions=Path("mine.jsonl"), scene=["room00", "room01"], batch_size="auto")
    render_agent.ask("room.ply", "How many?", options=["A. 1", "B. 2"], up="y", temperature=0.5)
    render_agent.continue_run("recent", workers=2, output="runs", ray=None)
    render_agent.load_engine(model="small", max_turns=3, engine_option={"top_k": 20})


def refused() -> None:
    render_agent.run(bench="rooms")  # type: ignore[call-arg]
    render_agent.run(limit="three")  # type: ignore[arg-type]
    render_agent.run(json=True)  # type: ignore[call-arg]
    render_agent.ask("room.ply", "How many?", max_turn=3)  # type: ignore[call-arg]
    render_agent.ask("room.ply", "How many?", image_size=64)  # type: ignore[arg-type]
    render_agent.continue_run(seeds=1)  # type: ignore[call-arg]
    render_agent.load_engine(dtype=8)  # type: ignore[arg-type]
