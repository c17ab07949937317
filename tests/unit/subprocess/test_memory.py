"""Counting what the kernel kills for want of memory, on files that stand for those of cgroups."""

import pytest

from jobq_subprocess import memory
from jobq_subprocess.memory import MemoryKills


@pytest.fixture
def places(monkeypatch):
    """Where this process's cgroups are: by controller, None for the unified hierarchy."""
    places = {}
    monkeypatch.setattr(memory.cgroupfs, "own", lambda controller=None: places.get(controller))
    return places


def test_cgroup_v1_counts_in_the_control_file(places, tmp_path):
    places["memory"] = str(tmp_path)
    control = tmp_path / "memory.oom_control"
    control.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    kills = MemoryKills()
    assert kills.count() == 3
    control.write_text("oom_kill_disable 0\nunder_oom 1\noom_kill 4\n")
    assert kills.count() == 4
    kills.close()
    assert kills.count() == 0


def test_cgroup_v2_counts_where_the_controller_is(places, tmp_path):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    places[None] = str(below)
    (tmp_path / "a" / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 8\noom_kill 7\noom_group_kill 1\n")
    kills = MemoryKills()
    assert kills.count() == 7
    kills.close()


def test_where_nothing_is_counted(places, tmp_path):
    kills = MemoryKills()
    assert kills.count() == 0
    places[None] = str(tmp_path)
    (tmp_path / "memory.events").write_text("nonsense")
    kills = MemoryKills()
    assert kills.count() == 0
    kills.close()
