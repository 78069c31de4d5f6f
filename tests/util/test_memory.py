"""Main memory within the limits of a container."""

import numpy as np
import psutil
import pytest

from render_agent.util.memory import available_memory, limit_memory


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_limits_of_outer_control_groups_apply(tmp_path):
    write(tmp_path / "proc/self", cgroup="0::/job/step\n")
    group = tmp_path / "sys/fs/cgroup"
    write(group / "job/step", memory__max="max\n", memory__current="1\n", memory__stat="anon 1\n")
    assert available_memory(tmp_path)[0] == psutil.virtual_memory().total
    stat = "anon 500\ninactive_file 200\n"
    write(group / "job", memory__max="1000\n", memory__current="700\n", memory__stat=stat)
    assert available_memory(tmp_path) == (1000, 500)


def test_without_control_groups_the_machine_total_is_reported(tmp_path):
    assert available_memory(tmp_path)[0] == psutil.virtual_memory().total


def test_exceeding_the_memory_limit_raises_value_error():
    with pytest.raises(ValueError, match="memory"), limit_memory(64 << 20):
        np.ones(1 << 30)
    assert len(np.ones(1 << 20)) == 1 << 20
