"""The diagnosis of beliefs: policies with one known fault, and what black pictures lead to."""

import pytest

from benchmarks.beliefs import FAULTS, run_of

FEW = {"scene": ("room00",), "image_size": (96, 72)}
"""Options of a run that takes little."""


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_put_into_its_branch(tmp_path, name):
    found = run_of(name, tmp_path, **FEW, limit=8)
    assert found["seen"] >= 4
    assert found["right"] == found["expected"] >= 4
    assert found["branches"].get(str(FAULTS[name][1]), 0) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_put_into_its_branch_in_all_bundled_rooms(tmp_path, name):
    found = run_of(name, tmp_path)
    assert found["questions"] == 160
    assert found["seen"] > 80
    assert found["right"] >= 0.98 * found["expected"]
