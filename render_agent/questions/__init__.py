"""Rows of a benchmark → `Question`: VSI-Bench and its scans, the bundled rooms, and what questions ask for.

Imports `dialogue`, `score`, `scene` and the rooms below them.
Start with `selection`, which chooses the questions of a run.
"""

BENCHMARKS = {
    "vsibench": "render_agent.questions.vsibench:VSI_BENCH",
    "rooms": "render_agent.questions.rooms:ROOMS",
    "sqa3d": "render_agent.questions.scan_benchmarks:SQA3D",
    "scanqa": "render_agent.questions.scan_benchmarks:SCANQA",
    "openeqa": "render_agent.questions.scan_benchmarks:OPENEQA",
    "revsi": "render_agent.questions.scan_benchmarks:REVSI",
}
"""Values of `--benchmark`."""
