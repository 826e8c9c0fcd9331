"""`rag log append` where fewer witnesses cosign than the trust file asks for: nothing is lost, and the command does not end well."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from appended import APPEND, envelope, signers, witnessing
from proven import ASKED, KEYS, ORIGIN, TRUST, copied, issue, trusting

from rag_stdlib.cli.logged import Witnesses
from rag_stdlib.proof.log.logkeys import load_keys
from rag_stdlib.proof.log.store import Log

Rag = Any  # see conftest

NOBODY = "http://127.0.0.1:9"
LOGGED = f"b.json: entry 1 of {ORIGIN}\n"
CLEAR = "says that the log does not continue what it cosigned: see rag log check, and append no more before this is cleared"


@pytest.fixture
def watched(proven: Rag, folder: Path) -> Rag:
    """The command line, with a certificate b.json that is not logged, and two witnesses that are trusted, of which one has to cosign."""
    proven("keys", "new", "witness2.keys", "--witness", "witness.example/w2")
    trusting(proven, folder, "issuer.keys", "log.keys", "witness.keys", "witness2.keys")
    asks_for(1)
    issue(proven, "b.json", None)
    return proven


def asks_for(quorum: int) -> None:
    Path("trust.json").write_text(json.dumps({**json.loads(Path("trust.json").read_text()), "quorum": quorum}))


def asking(*urls: str) -> tuple[str, ...]:
    return (*[word for url in urls for word in ("--witness", url)], *TRUST)


def ended(told: Any, said: str) -> None:
    assert (told.code, told.err) == (1, f"rag: error [quorum_missing]: {said}\n")


def test_a_witness_that_is_not_there(watched: Rag) -> None:
    told = watched(*APPEND, "b.json", *KEYS, *asking(NOBODY))
    again = f"rag log append answers.log b.json --keys log.keys --witness {NOBODY} --trust trust.json"
    ended(told, f"0 of 2 witnesses cosigned, and 'trust.json' asks for 1: the witness {NOBODY}: [Errno 111] Connection refused; {again} gets a cosigned receipt later")
    assert told.out == LOGGED
    assert signers("b.json") == [ORIGIN], "it is logged and has its receipt"
    with witnessing() as url:
        healed = watched(*again.replace(NOBODY, url).split()[1:])
    assert (healed.code, healed.out, healed.err) == (0, f"b.json: entry 1 of {ORIGIN}, with a new receipt\n", "")
    assert watched("verify", "b.json", *TRUST, *ASKED).code == 0


@pytest.mark.parametrize("quorum", [1, 0])
def test_where_enough_cosign_the_others_are_noted(watched: Rag, quorum: int) -> None:
    asks_for(quorum)
    with witnessing() as url:
        told = watched(*APPEND, "b.json", *KEYS, *asking(*([url] if quorum else []), NOBODY))
    assert (told.code, told.out) == (0, LOGGED)
    assert told.err == f"rag: note: not cosigned [unreachable]: the witness {NOBODY}: [Errno 111] Connection refused\n"


def test_a_fork_is_named_first_and_no_more_is_to_be_appended(watched: Rag, folder: Path) -> None:
    copied(folder, "answers.log", "fork.log")
    with witnessing() as url:
        issue(watched, "c.json")
        assert watched("log", "checkpoint", "answers.log", *asking(url)).code == 0
        told = watched("log", "append", "fork.log", "b.json", *KEYS, *asking(NOBODY, url))
        assert told.out == LOGGED
        ended(told, f"0 of 2 witnesses cosigned, and 'trust.json' asks for 1: the witness {url} {CLEAR}; the witness {NOBODY}: [Errno 111] Connection refused; rag log append fork.log b.json "
                    f"--keys log.keys --witness {NOBODY} --witness {url} --trust trust.json gets a cosigned receipt once it is cleared")
        asks_for(0)
        noted = watched("log", "append", "fork.log", "b.json", *KEYS, *asking(url))
        assert (noted.code, noted.err.endswith("; see rag log check, and append no more before this is cleared\n")) == (0, True)


def test_a_log_that_is_behind_what_was_cosigned_is_to_be_cleared_too(watched: Rag, folder: Path) -> None:
    copied(folder, "answers.log", "old.log")
    with witnessing() as url:
        for name in ("c.json", "d.json"):
            issue(watched, name)
        assert watched("log", "checkpoint", "answers.log", *asking(url)).code == 0
        told = watched("log", "append", "old.log", "b.json", *KEYS, *asking(url))
    assert (told.code, told.out) == (1, LOGGED)
    assert f"asks for 1: the witness {url} {CLEAR}; rag log append old.log " in told.err


def test_one_that_some_cosigned_is_renewed(watched: Rag) -> None:
    asks_for(2)
    with witnessing() as one, witnessing(2) as two:
        told = watched(*APPEND, "b.json", *KEYS, *asking(one))
        again = f"rag log append answers.log b.json --keys log.keys --renew --witness {one} --trust trust.json"
        ended(told, f"1 of 2 witnesses cosigned, and 'trust.json' asks for 2: no other was asked; {again} gets a cosigned receipt later")
        left = watched(*APPEND, "b.json", *KEYS, *asking(one, two))
        assert (left.code, left.out) == (1, f"b.json: entry 1 of {ORIGIN}, left as it is\n")
        assert watched(*APPEND, "b.json", *KEYS, "--renew", *asking(one, two)).code == 0
    assert set(signers("b.json")) == {ORIGIN, "witness.example/w1", "witness.example/w2"}


def test_json_says_which_are_short(watched: Rag) -> None:
    with witnessing() as url:
        assert watched(*APPEND, "a.json", *KEYS, *asking(url)).code == 0
    told = watched(*APPEND, "a.json", "b.json", *KEYS, *asking(NOBODY), "--json")
    assert told.code == 1
    assert [(row["file"], row["done"], row["receipt"]) for row in told.json] == [
        ("a.json", "left as it is", envelope("a.json")["receipt"]), ("b.json", "logged", envelope("b.json")["receipt"])]
    assert [row["short"] for row in told.json] == [None, told.err.removeprefix("rag: error [quorum_missing]: ").removesuffix("\n")]
    assert " append answers.log b.json --keys " in told.json[1]["short"]


def test_where_nobody_is_asked_nobody_is_missed(watched: Rag) -> None:
    told = watched(*APPEND, "b.json", *KEYS, *TRUST)
    assert (told.code, told.out, told.err) == (0, LOGGED, "")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_entries_that_are_no_certificates(watched: Rag, write: Callable[..., Path], form: tuple[str, ...]) -> None:
    write("x.bin", "any bytes")
    told = watched(*APPEND, "x.bin", *KEYS, "--raw", *form, *asking(NOBODY))
    assert "c2sp.org/tlog-proof@v1" in told.out
    ended(told, f"0 of 2 witnesses cosigned, and 'trust.json' asks for 1: the witness {NOBODY}: [Errno 111] Connection refused; rag log checkpoint answers.log --witness {NOBODY} --trust trust.json "
                "gets a cosigned receipt later, and rag log prove --cosigned prints it")
    if form:
        assert told.json[0]["short"] == told.err.removeprefix("rag: error [quorum_missing]: ").removesuffix("\n")


def test_passwords_are_not_printed(watched: Rag) -> None:
    told = watched(*APPEND, "b.json", *KEYS, *asking("http://user:geheim@127.0.0.1:9"))
    assert (told.code, "geheim" in told.err, "user" in told.err) == (1, False, False)
    assert "the witness http://***@127.0.0.1:9: " in told.err
    for arguments in ((*APPEND, "a.json", *KEYS, *asking("http://user:geheim@w.example:x")), ("log", "checkpoint", "answers.log", *asking("http://user:geheim@127.0.0.1:9")),
                      ("log", "monitor", "m.db", "http://user:geheim@127.0.0.1:9/log", *TRUST, "--new"),
                      ("verify", "a.json", *TRUST, *ASKED, "--memory", "seen", "--log", "http://user:geheim@127.0.0.1:9/log")):
        told = watched(*arguments)
        assert told.code
        assert "geheim" not in told.out + told.err, arguments


@pytest.mark.usefixtures("watched")
def test_a_long_list_of_files_is_not_written_out() -> None:
    with Log("answers.log", load_keys("log.keys")) as log:
        receipt = log.receipt(0).to_bytes().decode()
    asked = Witnesses((NOBODY,), "trust.json")
    assert " append 'a log' FILE... --keys " in asked.short(ORIGIN, "a log", "log.keys", {f"{number}.json": receipt for number in range(21)})
    assert asked.short(ORIGIN, "a log", "log.keys", {"one.json": "no receipt"}).startswith("0 of 2 witnesses cosigned")
    assert asked.short(ORIGIN, "a log", "log.keys", {}) == ""
    assert Witnesses().short(ORIGIN, "a log", "log.keys", {"one.json": receipt}) == ""
