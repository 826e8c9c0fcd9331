"""One run of git: closed off from everybody's settings, bounded in time and output, ended together with its children.

What git fetches is written by strangers. So it runs without the configuration of the system, the user or the working folder, speaks
https and the local protocol only, asks nobody for credentials and uses none, runs no hook, checks every object that comes, and
never fetches what it was not told to. It is started without a shell, and the caller's ``GIT_*`` variables do not reach it.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Literal, TypeAlias, final

from rag_stdlib.embed.redact import one_line

Kind: TypeAlias = Literal[
    "no_git", "unreachable", "unknown_branch", "commit_not_on_branch", "too_large", "timeout", "busy", "failed"]

LOCAL_SECONDS: Final = 300.0  # for what needs no network: in all, or for each wait where the reader sets the pace
OUTPUT_BYTES: Final = 1_000_000
_TICK_SECONDS: Final = 0.1
_PIECE: Final = 65_536
_COMPLAINT_BYTES: Final = 8_192

# The way to the network and to the certificates is the operator's; nothing else of the environment is git's business.
_PASSED_ON: Final = (
    "PATH", "TMPDIR", "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
)
_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1",
    "HOME": "/dev/null", "XDG_CONFIG_HOME": "/dev/null",  # no .netrc, and for a git that does not know GIT_CONFIG_GLOBAL
    "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "false", "SSH_ASKPASS": "false", "GIT_SSH_COMMAND": "false",
    "GIT_ALLOW_PROTOCOL": "https:file", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C",
}
_SETTINGS: Final = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "credential.helper=", "protocol.version=2",
    "gc.autoDetach=false", "maintenance.autoDetach=false",  # nothing goes on behind our back
    "fetch.unpackLimit=1",  # always a pack: few files, and a broken transfer leaves no loose objects
    "http.lowSpeedLimit=1", "http.lowSpeedTime=120",  # so that not even a git whose parent was killed waits for ever
    "fetch.fsckObjects=true",
    # Slips of old tools that stand in the history of many repositories and can hurt no reader of blobs.
    *(f"fetch.fsck.{slip}=ignore" for slip in (
        "zeroPaddedFilemode", "badTimezone", "zeroPaddedDate", "badDate", "missingSpaceBeforeDate", "missingSpaceBeforeEmail",
        "missingNameBeforeEmail", "badEmail", "missingEmail", "badName")),
)


class GitFailure(Exception):  # noqa: N818 - what failed is git
    """Git, or what was asked of it, failed. `detail` is one line, without credentials."""

    def __init__(self, kind: Kind, detail: str) -> None:
        """Say what kind of failure it is, and in words what failed."""
        self.kind: Kind = kind
        self.detail = one_line(re.sub(r"(?<=://)\S*@", "\u2026@", detail))
        super().__init__(self.detail)


class Deadline:
    """A time that several runs of git share."""

    def __init__(self, seconds: float) -> None:
        """Begin to count."""
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, 0 when the time is over."""
        return max(0.0, self._end - time.monotonic())


@dataclass(frozen=True, slots=True)
class Finished:
    """How git ended: its exit status, its output, and what it complained of."""

    status: int
    output: bytes
    complaint: str


@final
class Git:
    """A git that runs while the block does. Leaving the block early, by whatever exception, kills it and its children."""

    def __init__(self, *arguments: str, folder: Path | None = None, stdin: bytes = b"", deadline: Deadline | None = None,
                 watch: Callable[[], None] = lambda: None, keep_open: int | None = None) -> None:
        """Start git.

        Args:
            arguments: The command and what belongs to it.
            folder: The bare repository it works on; without one it knows of no repository.
            stdin: What git reads.
            deadline: When it must be done; without one, each single wait for output may last `LOCAL_SECONDS`.
            watch: Called several times a second; what it raises ends git.
            keep_open: A descriptor that git and its children hold open as long as they live.

        Raises:
            GitFailure: `no_git`, and `failed` where the system cannot start it.
        """
        self._name = arguments[0]
        self._deadline, self._watch = deadline, watch
        self._complaint = b""
        try:
            with tempfile.TemporaryFile() as told:
                told.write(stdin)
                told.seek(0)
                self._process = _started(arguments, folder, told, () if keep_open is None else (keep_open,))
        except OSError as error:
            raise GitFailure("failed", f"git cannot be run: {error.strerror or error}") from None

    def __enter__(self) -> Git:
        """Return the running git."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """See to it that nothing of it goes on."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # it has just ended; some systems may not signal such a group
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def pieces(self) -> Iterator[bytes]:
        """Give the output as it comes.

        Raises:
            GitFailure: `timeout`, and whatever `watch` raises.
        """
        output, complaints = self._process.stdout, self._process.stderr
        with selectors.DefaultSelector() as selector:
            for pipe in (output, complaints):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ)
            waits = self._deadline or Deadline(LOCAL_SECONDS)
            while selector.get_map():
                ready = selector.select(min(_TICK_SECONDS, waits.left()))
                self._watch()
                if not waits.left():
                    raise self._late(waits)
                for key, _ in ready:
                    piece = os.read(key.fd, _PIECE)
                    if not piece:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is complaints:
                        self._complaint = (self._complaint + piece)[-_COMPLAINT_BYTES:]
                    else:
                        yield piece
                        waits = self._deadline or Deadline(LOCAL_SECONDS)

    def finish(self) -> tuple[int, str]:
        """Wait for git to end, its output read; return its exit status and what it complained of.

        Raises:
            GitFailure: `timeout`.
        """
        waits = self._deadline or Deadline(LOCAL_SECONDS)
        try:
            status = self._process.wait(waits.left())
        except subprocess.TimeoutExpired:
            raise self._late(waits) from None
        return status, _complaint(self._complaint)

    def _late(self, waits: Deadline) -> GitFailure:
        return GitFailure("timeout", f"git {self._name} was not done within {waits.seconds:g} s")


def run(*arguments: str, folder: Path | None = None, stdin: bytes = b"", deadline: Deadline | None = None,
        watch: Callable[[], None] = lambda: None, keep_open: int | None = None, most: int = OUTPUT_BYTES) -> Finished:
    """Run git to its end; the arguments are those of `Git`.

    Raises:
        GitFailure: `no_git`, `timeout`, `failed`; `too_large` for an output of more than `most` bytes; and whatever `watch` raises.
    """
    output = bytearray()
    waits = deadline or Deadline(LOCAL_SECONDS)
    with Git(*arguments, folder=folder, stdin=stdin, deadline=waits, watch=watch, keep_open=keep_open) as git:
        for piece in git.pieces():
            output += piece
            if len(output) > most:
                raise GitFailure("too_large", f"git {arguments[0]} gave more than {most:,} bytes")
        status, complaint = git.finish()
    return Finished(status, bytes(output), complaint)


def _started(arguments: tuple[str, ...], folder: Path | None, stdin: IO[bytes], keep_open: tuple[int, ...]) -> subprocess.Popen[bytes]:
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    environment = _ENVIRONMENT | {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment["GIT_DIR"] = str(folder or os.devnull)
    try:
        return subprocess.Popen(  # noqa: S603 - no shell, and every argument is checked where it comes from
            ["git", *settings, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",  # noqa: S607
            env=environment, start_new_session=True, pass_fds=keep_open)
    except (FileNotFoundError, PermissionError):
        raise GitFailure("no_git", "git cannot be run; install it, or put it on the PATH") from None


def _complaint(said: bytes) -> str:
    """Pick the lines that name the fault: progress stands around them, and advice for a person at a terminal."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", said.decode(errors="replace")) if line.strip()]
    faults = [line.partition(": ")[2] for line in lines if line.startswith(("fatal: ", "error: "))]
    return "; ".join(faults or lines[-1:]) or "it did not say why"
