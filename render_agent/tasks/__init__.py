"""Tasks: benchmark rows become questions about scans; the objects a question names; its ground truth.

Start with `selection.py`, which selects the questions of a run, then `rows.py`.
"""

# Value of `--benchmark` -> benchmark.
BENCHMARKS = {
    "vsibench": "render_agent.tasks.vsibench:VSI_BENCH",
    "rooms": "render_agent.tasks.rooms:ROOMS",
    "sqa3d": "render_agent.tasks.scan_benchmarks:SQA3D",
    "scanqa": "render_agent.tasks.scan_benchmarks:SCANQA",
    "openeqa": "render_agent.tasks.scan_benchmarks:OPENEQA",
    "revsi": "render_agent.tasks.scan_benchmarks:REVSI",
}
