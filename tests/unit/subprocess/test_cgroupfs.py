"""Where a process's cgroup is, by what /proc tells."""

import pytest

from jobq_subprocess import cgroupfs

UNIFIED = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = (
    "31 25 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
CONTAINER = "30 25 0:26 /machine/one /sys/fs/cgroup ro - cgroup2 cgroup rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "cgroup", "controller", "directory"),
    [
        (UNIFIED, "0::/\n", None, "/sys/fs/cgroup"),
        (UNIFIED, "0::/user.slice/a:b.scope\n", None, "/sys/fs/cgroup/user.slice/a:b.scope"),
        (UNIFIED, "0::/\n", "memory", None),
        (HYBRID, "4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/d\n", None, "/sys/fs/cgroup/unified/d"),
        (HYBRID, "4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/d\n", "memory", "/sys/fs/cgroup/memory/a/b"),
        (HYBRID, "4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/d\n", "cpuacct", "/sys/fs/cgroup/cpu,cpuacct/c"),
        (HYBRID, "4:memory:/a/b\n0::/d\n", "pids", None),
        (CONTAINER, "0::/machine/one\n", None, "/sys/fs/cgroup"),
        (CONTAINER, "0::/machine/one/two\n", None, "/sys/fs/cgroup/two"),
        (CONTAINER, "0::/machine/onetwo\n", None, None),
        (UNIFIED, "0::/../elsewhere\n", None, None),
        (UNIFIED, "", None, None),
        ("", "0::/\n", None, None),
        ("nonsense\n\n30 25 - cgroup2\n", "0::/\n", None, None),
        ("30 25 0:26 / /mnt/a\\040b\\134c rw - cgroup2 cgroup2 rw\n", "0::/d\n", None, r"/mnt/a b\c/d"),
    ],
)
def test_the_directory_of_a_cgroup(mountinfo, cgroup, controller, directory):
    assert cgroupfs.place(mountinfo, cgroup, controller) == directory


def test_a_system_without_cgroups(monkeypatch):
    def absent(path):
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(cgroupfs, "_read", absent)
    assert cgroupfs.own() is None
    assert cgroupfs.points() == []
