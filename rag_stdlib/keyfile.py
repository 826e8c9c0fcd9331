"""Node keys on disk: files that their owner alone may read, in the seed form that macula-go and macula-py read too.

A key file is written once and never over another file: a lost key is a lost identity.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

from rag_stdlib.contract.nodekeys import MAX_SEED_FORM_BYTES, KeyFormError, NodeKey, Profile
from rag_stdlib.errors import Failure, fail
from rag_stdlib.wholefile import sync_folder

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OWNER_ONLY: Final = stat.S_IRUSR | stat.S_IWUSR
_SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ: Final = os.O_RDONLY | _SAFELY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY


def load_key(path: str | os.PathLike[str], profile: Profile | None = None) -> NodeKey:
    """Load the node key in a file; of this profile, if one is named.

    Raises:
        Failure: `key_file_missing`; `key_file_unsafe` for a symbolic link, for what is no regular file, and for a file on which
            others than its owner have any right; `key_file_invalid` for what is no key in seed form, or one of another profile;
            `path_nul`, `invalid_text`, `path_too_long`, `path_permission` or `key_file_io` where the system does not let it be opened or read.
    """
    path = os.fspath(path)
    try:
        key = NodeKey.from_seed_form(_read(path))
    except KeyFormError as error:
        raise fail("key_file_invalid", path=path, detail=error) from None
    if profile not in (None, key.profile):
        raise fail("key_file_invalid", path=path, detail=f"it holds a {key.profile} key, and a {profile} key is needed")
    return key


def save_new_key(path: str | os.PathLike[str], key: NodeKey) -> None:
    """Write a key to a new file that its owner alone may read, and wait until it is on the disk.

    Raises:
        Failure: `key_file_exists` where anything has this name, a broken link too; it stays as it is. `path_folder_missing`,
            `path_nul`, `invalid_text`, `path_too_long`, `path_permission` or `key_file_io` where none can be made or written whole; then
            nothing is left behind.
    """
    path, data = os.fspath(path), key.to_seed_form()
    try:
        handle = os.open(path, _CREATE, _OWNER_ONLY)
    except FileExistsError:
        raise fail("key_file_exists", path=path, detail="it is left as it is") from None
    except (FileNotFoundError, NotADirectoryError):
        raise fail("path_folder_missing", path=path) from None
    except (OSError, ValueError) as error:
        raise _refused(path, error) from None
    with contextlib.ExitStack() as undo:  # half a key would stand in the way of a whole one
        undo.callback(Path(path).unlink, missing_ok=True)
        try:
            _write(handle, data)
        except OSError as error:
            raise _refused(path, error) from None
        undo.pop_all()
    sync_folder(Path(path).parent)


def _read(path: str) -> bytes:
    try:
        handle = os.open(path, _READ)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise fail("key_file_missing", path=path, detail=error.strerror) from None
    except (OSError, ValueError) as error:
        raise _refused(path, error) from None
    try:
        _check_safe(path, os.fstat(handle).st_mode)
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MAX_SEED_FORM_BYTES + 1)
    except OSError as error:
        raise _refused(path, error) from None
    finally:
        os.close(handle)


def _check_safe(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise fail("key_file_unsafe", path=path, detail="it is no regular file")
    if mode & _OTHERS:
        raise fail("key_file_unsafe", path=path, detail=f"others may use it (mode {stat.S_IMODE(mode):04o}); run chmod 600 on it")


def _write(handle: int, data: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, _OWNER_ONLY)  # whatever the umask took
        file.write(data)
        file.flush()
        os.fsync(handle)


def _refused(path: str, error: OSError | ValueError) -> Failure:
    if isinstance(error, UnicodeEncodeError):
        return fail("invalid_text", field="the path", offset=error.start)
    if isinstance(error, ValueError):
        return fail("path_nul", offset=path.index("\0"))
    if error.errno == errno.ELOOP:
        return fail("key_file_unsafe", path=path, detail="it is a symbolic link, and links are not followed")
    if error.errno == errno.ENXIO:
        return fail("key_file_unsafe", path=path, detail="it is no regular file")
    if error.errno == errno.ENAMETOOLONG:
        return fail("path_too_long", path=path)
    code = "path_permission" if error.errno in (errno.EACCES, errno.EPERM) else "key_file_io"
    return fail(code, path=path, detail=error.strerror or str(error))
