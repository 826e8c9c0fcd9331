"""From a path as typed in a shell to one below the root.

The tools take paths below the root and refuse ``..``. A person types them from where they are, so this is put right
here, by text alone; what comes out is opened by the root, which has the last word.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rag_stdlib.runtime import Runtime


def below_root(runtime: Runtime, path: str) -> str:
    """Name a typed path by its place below the root: taken from the working directory if that lies in the root, else from the root.

    Leading ``..`` are followed as far as the root. A path that leads out comes back as typed, to be refused; so it does where there
    is no root, which the tool says, unless its answer comes from a trace.
    """
    if not runtime.config.root:
        return path
    if path.startswith("/"):
        return _from_absolute(Path(runtime.root.path), path)
    root, here = Path(runtime.root.path).resolve(), Path.cwd().resolve()
    if not path or not here.is_relative_to(root):
        return path
    above, rest = list(here.relative_to(root).parts), path
    while rest.split("/")[0] in (".", ".."):
        first, _, rest = rest.partition("/")
        rest = rest.lstrip("/")
        if first == "..":
            if not above:
                return path
            above.pop()
    return "/".join([*above, rest]) or "."


def _from_absolute(root: Path, path: str) -> str:
    """Cut the root off an absolute path, also where one of the two goes through links above the root."""
    if ".." not in path.split("/") and not path.startswith("//"):
        for folder in reversed((Path(path), *Path(path).parents)):
            with suppress(OSError):
                if folder.samefile(root):
                    return Path(path).relative_to(folder).as_posix() + ("/" if path.endswith("/") and path != "/" else "")
    return path


def plain(path: str) -> str:
    """Write a path below the root without empty parts and dots: a file's or folder's name as documents carry it."""
    if not path or path.startswith("/"):
        return path
    return "/".join(part for part in path.split("/") if part not in ("", ".")) or "."
