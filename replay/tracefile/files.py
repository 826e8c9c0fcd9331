"""Opening what somebody else may have put there: a regular file and nothing else, and without waiting."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path: str | os.PathLike[str], flags: int = 0) -> BinaryIO:
    """Open a regular file for reading, unbuffered; `flags` are further ones of `os.open`.

    Raises:
        OSError: it cannot be opened, or is something else: a folder, a pipe, a device.
        ValueError: the path has a zero byte.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)  # without O_NONBLOCK a pipe would wait for its writer
    except OSError as error:
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            raise OSError(errno.ELOOP, "this is a symbolic link") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "this is no regular file")
        return os.fdopen(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def reason_of(error: OSError | ValueError) -> str:
    """Say why something about a file failed, without its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
