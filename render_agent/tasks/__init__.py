"""Rows of a benchmark → `Question`: VSI-Bench and its scans, the bundled rooms, and what questions ask for.

Imports `dialogue`, `score`, `scene` and the rooms below them.
Start with `selection`, which chooses the questions of a run.
"""

BENCHMARKS = {
    "vsibench": "render_agent.tasks.vsibench:VSI_BENCH",
    "rooms": "render_agent.tasks.rooms:ROOMS",
    "sqa3d": "render_agent.tasks.scan_benchmarks:SQA3D",
    "scanqa": "render_agent.tasks.scan_benchmarks:SCANQA",
    "openeqa": "render_agent.tasks.scan_benchmarks:OPENEQA",
    "revsi": "render_agent.tasks.scan_benchmarks:REVSI",
}
"""Values of `--benchmark`."""
