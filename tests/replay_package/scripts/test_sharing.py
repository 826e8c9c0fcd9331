"""The bytes that say which recorded calls were used, shared by threads and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from replay import ReplayError, TraceError
from replay.scripts import sharing
from replay.scripts.sharing import SharedUse

COUNTING = """
import os, sys
from replay.scripts.sharing import SharedUse
use = SharedUse.of_file(sys.argv[1], 2) if sys.argv[1:] else SharedUse.of_forks(2)
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        for _ in range(1500):
            with use.lock():
                number = 256 * use.buffer[0] + use.buffer[1] + 1
                use.buffer[0], use.buffer[1] = divmod(number, 256)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
print(256 * use.buffer[0] + use.buffer[1])
"""


@pytest.mark.parametrize("kind", ["forks", "file"])
def test_processes_hold_each_other_off(tmp_path: Path, kind: str) -> None:
    (tmp_path / "used").write_bytes(bytes(2))
    words = [str(tmp_path / "used")] if kind == "file" else []
    done = subprocess.run([sys.executable, "-c", COUNTING, *words], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("4500\n", "")


@pytest.mark.parametrize("kind", ["forks", "file"])
def test_threads_hold_each_other_off(tmp_path: Path, kind: str) -> None:
    (tmp_path / "used").write_bytes(bytes(1))
    use = SharedUse.of_file(str(tmp_path / "used"), 1) if kind == "file" else SharedUse.of_forks(1)
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(200):
            with use.lock():
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}


def test_sessions_do_not_hold_each_other_off() -> None:
    one, other = SharedUse.of_forks(1), SharedUse.of_forks(0)
    with one.lock(), other.lock():
        assert other.buffer == b""


def test_a_file_that_is_gone_or_of_another_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="the replay is over"):
        SharedUse.of_file(str(tmp_path / "used"), 1)
    (tmp_path / "used").write_bytes(bytes(2))
    with pytest.raises(TraceError, match="2 calls were counted"):
        SharedUse.of_file(str(tmp_path / "used"), 1)


def test_a_lock_that_cannot_be_had_leaves_none_behind() -> None:
    use = SharedUse.of_forks(1)
    use._descriptor = -1
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"), use.lock():
            pytest.fail("it was had")


def test_systems_without_files_in_memory_lock_one_without_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    descriptor = sharing._lock_file.__wrapped__()
    assert os.fstat(descriptor).st_nlink == 0
    os.close(descriptor)
    assert list(tmp_path.iterdir()) == []
