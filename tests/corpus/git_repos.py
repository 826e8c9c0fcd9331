"""Small repositories made by the real git, the same commits on every machine: fixed author and dates, no configuration but our own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CONFIG: Final = ("user.name=A. Uthor", "user.email=author@example.org", "init.defaultBranch=main", "core.hooksPath=/dev/null",
                 "commit.gpgSign=false", "gc.auto=0", "protocol.file.allow=always",
                 "core.compression=0", "fastimport.unpackLimit=0")
FIRST_DATE: Final = 1_700_000_000


def git(*arguments: str, folder: Path, stdin: bytes = b"") -> bytes:
    """Run git on a repository; its configuration on this machine does not matter."""
    settings = [word for setting in CONFIG for word in ("-c", setting)]
    environment = {"PATH": os.environ["PATH"], "HOME": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}
    done = subprocess.run(["git", *settings, f"--git-dir={folder}", *arguments], input=stdin, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class Repo:
    """A bare repository; each commit is a minute after the one before it."""

    def __init__(self, folder: Path, *init: str) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._commits = 0
        git("init", "--quiet", "--bare", "--template=", *init, str(folder), folder=folder)
        git("config", "pack.window", "0", folder=folder)  # whoever fetches does not wait for it to look for likeness

    @property
    def url(self) -> str:
        return str(self.folder)

    def commit(self, files: Mapping[str | bytes, str | bytes | None], branch: str = "main", *, parent: str | None = "", mode: str = "100644") -> str:
        """Commit files (None deletes one) on a branch; `parent` is the branch's tip unless another is named, None for a root commit."""
        ref = f"refs/heads/{branch}"
        if parent == "":
            parent = git("for-each-ref", "--format=%(objectname)", ref, folder=self.folder).decode().strip() or None
        stream = [f"commit {ref}\ncommitter A. Uthor <author@example.org> {FIRST_DATE + 60 * self._commits} +0000\ndata 1\n.\n".encode()]
        if parent:
            stream.append(f"from {parent}\n".encode())
        for name, data in files.items():
            quoted = b'"' + b"".join(b"\\%03o" % byte for byte in (name.encode() if isinstance(name, str) else name)) + b'"'
            if data is None:
                stream.append(b"D %s\n" % quoted)
            else:
                content = data.encode() if isinstance(data, str) else data
                stream.append(b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), quoted, len(content), content))
        self._commits += 1
        git("fast-import", "--quiet", "--force", folder=self.folder, stdin=b"".join(stream))
        return git("rev-parse", ref, folder=self.folder).decode().strip()

    def commit_tree(self, records: bytes, branch: str = "main") -> str:
        """Commit a tree of git's own making, whatever it holds, as ``git ls-tree -z`` writes it."""
        tree = git("mktree", "-z", "--missing", folder=self.folder, stdin=records).decode().strip()
        return self.commit_of(tree, branch)

    def commit_of(self, tree: str, branch: str = "main") -> str:
        """Commit a tree that is there."""
        commit = git("commit-tree", "-m", ".", tree, folder=self.folder).decode().strip()
        git("update-ref", f"refs/heads/{branch}", commit, folder=self.folder)
        return commit

    def put(self, data: bytes, kind: str = "blob") -> str:
        """Store an object, unchecked."""
        return git("hash-object", "-w", "--literally", "-t", kind, "--stdin", folder=self.folder, stdin=data).decode().strip()
