"""Benchmark rows as questions about scans. Start with `selection.py`, which selects those of a run, then `rows.py`."""

# value of `--benchmark` -> benchmark
BENCHMARKS = {
    "vsibench": "render_agent.tasks.vsibench:VSI_BENCH",
    "rooms": "render_agent.tasks.rooms:ROOMS",
    "sqa3d": "render_agent.tasks.scan_benchmarks:SQA3D",
    "scanqa": "render_agent.tasks.scan_benchmarks:SCANQA",
    "openeqa": "render_agent.tasks.scan_benchmarks:OPENEQA",
    "revsi": "render_agent.tasks.scan_benchmarks:REVSI",
}
