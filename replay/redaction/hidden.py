"""What is a secret: values that were hidden by name or stood in the environment, and the forms in which one may come by in a text."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, quote_plus, unquote

SHORTEST: Final = 4  # characters; anything shorter is in every text
WORD: Final = 8  # from this length on a secret is found inside words too
_ANYWHERE: Final = 12  # from this length on its base64 is found wherever it stands in what was encoded

# A variable is a secret by its name's last word, or what that ends with, or by a pair of words somewhere before a harmless last one.
_LAST: Final = frozenset({"KEY", "PASS", "PAT", "DSN", "AUTH", "CREDENTIAL", "CREDENTIALS", "COOKIE", "PWD"})
_ENDS: Final = ("APIKEY", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE")
_KEYS: Final = ("API_KEY_", "SECRET_KEY_", "PRIVATE_KEY_", "ACCESS_KEY_", "SIGNING_KEY_", "ENCRYPTION_KEY_")
_ABOUT: Final = frozenset({"ID", "FILE", "PATH", "DIR", "NAME", "URL", "URI", "TYPE", "SIZE", "LENGTH", "ALGORITHM"})
_NO_SECRETS: Final = frozenset({"true", "false", "none", "null", "undefined", "enabled", "disabled", "default", "required", "optional"})

_BASE64: Final = (base64.b64encode, base64.urlsafe_b64encode)

_lock = threading.Lock()
_hidden: tuple[int, tuple[str, ...]] = (0, ())
_watching: tuple[weakref.ref[Environment], ...] | None = None  # None: before the first one


def hide(secret: str) -> None:
    """Never write this value into any trace of this process, from now on; safe from any thread.

    Raises:
        ValueError: for a value of fewer than four characters, which would be found everywhere.
        TypeError: for what is no str, such as the None of a variable that is not set.
    """
    global _hidden  # noqa: PLW0603 - the process is what it is about
    bare = usable(secret)
    with _lock:
        version, known = _hidden
        if bare not in known:
            _hidden = version + 1, (*known, bare)


def hidden() -> tuple[int, tuple[str, ...]]:
    """Return what was hidden, and a number that changes when there is more."""
    return _hidden


def usable(secret: str) -> str:
    """Return a secret without the blanks around it.

    Raises:
        ValueError: where it is too short to be looked for.
        TypeError: where it is no str.
    """
    if not isinstance(secret, str):
        raise TypeError(f"a secret to hide is a str, this one is of type {type(secret).__name__}")
    bare = secret.strip()
    if len(bare) < SHORTEST:
        raise ValueError(f"a secret to hide has at least {SHORTEST} characters, this one has {len(bare)}")
    return bare


def of_environment(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables whose names say that they are secrets, and the passwords in URLs of all the others."""
    for name, value in environ.items():
        if "://" in value:
            for password in re.findall(r"://[^\s/:@]*:([^\s/]+)@", value):
                yield from (form.strip() for form in {password, unquote(password)} if len(form.strip()) >= SHORTEST)
        bare = value.strip()
        if len(bare) >= SHORTEST and names_a_secret_variable(name) and bare.lower() not in _NO_SECRETS:
            yield bare


class Environment:
    """The secrets of this process's environment: those that are in it, and those that are put there later, as long as this lives.

    `secrets` only grows: a program may hold what it has taken out of its environment. A change made by C code alone is not seen.
    """

    def __init__(self) -> None:
        """Begin to watch, then look."""
        global _watching  # noqa: PLW0603 - the process's environment is watched once
        self.secrets: list[str] = []
        with _lock:
            if _watching is None:
                sys.addaudithook(_seen)
            _watching = (*(one for one in _watching or () if one() is not None), weakref.ref(self))
        self.add(of_environment(os.environ))

    def add(self, secrets: Iterable[str]) -> None:
        """Take secrets that are not known yet."""
        self.secrets += [secret for secret in secrets if secret not in self.secrets]


def _seen(event: str, arguments: tuple[Any, ...]) -> None:
    """Look at each variable that is set, before it is; without a lock, since this may be called anywhere."""
    if event == "os.putenv":
        name, value = map(os.fsdecode, arguments)
        found = list(of_environment({name: value}))
        if found:
            for one in _watching or ():
                environment = one()
                if environment is not None:
                    environment.add(found)


def _after_fork_in_child() -> None:
    global _lock  # noqa: PLW0603 - a thread of the parent may hold it
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def names_a_secret_variable(name: str) -> bool:
    """Say whether an environment variable of this name holds a secret: OPENAI_API_KEY, PGPASSWORD, SECRET_KEY_BASE, token2."""
    bare = name.upper().replace("-", "_").rstrip("0123456789").rstrip("_")
    last = bare.rpartition("_")[2]
    if last in _LAST:
        return bare != "PWD"
    return bare.endswith(_ENDS) or (last not in _ABOUT and any(pair in bare for pair in _KEYS))


class Form(NamedTuple):
    """One way to write a secret. `word`: only where no letter or digit adjoins. `head`: the beginning of some base64."""

    text: str
    word: bool
    head: bool = False


def forms(secret: str) -> set[Form]:
    """Return a secret as it is, in URLs, in JSON and in Python's `repr` (once and twice over), and in base64: alone, or first in it.

    A secret of twelve characters or more is also found further inside what was encoded.
    """
    word = len(secret) < WORD
    texts = {secret}
    if re.fullmatch("[A-Za-z0-9._~-]+", secret) is None:  # what neither URLs nor JSON write as it is
        texts |= _in_urls(secret) | _in_json(secret) | _in_repr(secret)
    return {Form(text, word) for text in texts} | _in_base64(secret, word=word)


def _in_urls(secret: str) -> set[str]:
    data = secret.encode("utf-8", "surrogatepass")
    written = {quote(data, safe=""), quote(data), quote(data, safe="!'()*~"), quote_plus(data)}
    return written | {re.sub("%[0-9A-F]{2}", lambda code: code.group().lower(), text) for text in written}


def _in_json(secret: str) -> set[str]:
    """Give the inside of a JSON string, with and without non-ASCII characters, and of one within such a string."""
    once = {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return once | {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for text in once for ascii_only in (True, False)}


def _in_repr(secret: str) -> set[str]:
    """Give the inside of Python's string literals: single quotes stand as they are, or behind a backslash."""
    written = repr(f"{secret}'\"")[1:-4]  # where both quotes occur, the single one is escaped
    return {written, written.replace("\\'", "'")}


def _in_base64(secret: str, *, word: bool) -> set[Form]:
    data = secret.encode("utf-8", "surrogatepass")
    if word:
        return {Form(write(data).decode().rstrip("="), word) for write in _BASE64}
    # Of whole groups of three bytes: what follows the secret does not change these. Of the first group, with one or two
    # bytes of something else before the secret, only what those have no part in.
    ahead = {b"": 0, b"\0": 2, b"\0\0": 3} if len(secret) >= _ANYWHERE else {b"": 0}
    return {Form(write((before + data)[:(len(before) + len(data)) // 3 * 3])[cut:].decode(), word, head=True)
            for before, cut in ahead.items() for write in _BASE64}
