"""The redactor: no secret survives it, and what has none passes as the very same object."""

from __future__ import annotations

import base64
import gc
import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from replay.errors import NotRecordable
from replay.jsontext import canonical, decode, encode, match_key
from replay.redaction import hidden
from replay.redaction import redactor as redaction
from replay.redaction.patterns import LITERALS
from replay.redaction.redactor import REDACTED, Redactor, hide

CANARY = "canary-7f3a91c2"
ODD = 'q"u\\o\nte é\U0001f600 \u2028/+%\'x'
NUMERIC = "4929123456781234"
ENVIRON = {"CANARY_KEY": CANARY, "ODD_PASSWORD": ODD, "CARD_SECRET": NUMERIC, "SHORT_PASS": "hun2", "HOME": "/home/somebody", "LANG": "C.UTF-8"}
REDACTOR = Redactor(environ=ENVIRON)


@pytest.fixture
def _nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave what is hidden in this process as it was."""
    monkeypatch.setattr(hidden, "_hidden", hidden.hidden())
    yield
    monkeypatch.undo()


def leaves(value: Any) -> Iterator[str]:
    """Yield all strings and keys of a value, and its numbers as text."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def holds(value: Any, secret: str) -> bool:
    """Look for a secret in all of a value; what the marks themselves are made of does not count."""
    return any(secret in part for leaf in leaves(value) for part in leaf.split(REDACTED))


# What is redacted


FORMS = [
    ("%s", lambda secret: secret), ("url", quote), ("url, all", lambda secret: quote(secret, safe="")), ("form", quote_plus),
    ("encodeURIComponent", lambda secret: quote(secret, safe="!'()*~")), ("lower hex", lambda secret: re.sub("%..", lambda code: code.group().lower(), quote(secret, safe=""))),
    ("base64", lambda secret: base64.b64encode(secret.encode()).decode()), ("base64url", lambda secret: base64.urlsafe_b64encode(secret.encode()).decode()),
    ("base64 of more", lambda secret: base64.b64encode(f"{secret}\n".encode()).decode()), ("base64 bare", lambda secret: base64.b64encode(secret.encode()).decode().rstrip("=")),
    ("json", lambda secret: json.dumps(secret)[1:-1]), ("json utf-8", lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1]),
    ("json twice", lambda secret: json.dumps(json.dumps(secret))[3:-3]), ("json twice utf-8", lambda secret: encode(encode(secret).decode()).decode()[3:-3]),
    ("repr", lambda secret: repr(secret)[1:-1]), ("repr, other quote", lambda secret: repr(secret + "'\"")[1:-4]),
]


@pytest.mark.parametrize("secret", [CANARY, ODD, NUMERIC])
@pytest.mark.parametrize("context", ["%s", "Bearer %s", "https://x/?key=%s&b=1", "in%sword", "two %s\n", "密钥%s密"])
def test_a_secret_goes_in_whatever_form_it_comes(secret: str, context: str) -> None:
    """R165, row 19: by substring, not by equality."""
    for name, form in FORMS:
        text = context.replace("%s", form(secret))
        expected = {context.replace("%s", REDACTED)}
        if "word" in context and text.endswith("word"):
            expected.add(f"in{REDACTED}")  # the letters after base64 are taken for more of it
        assert REDACTOR.text(text) in expected, name
        assert set(leaves(decode(REDACTOR.json(encode([text, {text: text}]))))) <= expected, name


def test_a_secret_goes_from_arguments_results_errors_and_keys() -> None:
    line = encode({"kind": "tool_result", "args": [CANARY, {"q": f"a {CANARY}", CANARY: 1}], "result": {"tag": "err", "err": f"no {CANARY}!"}, "raised": {"args": [f"'{CANARY}'"]}})
    assert REDACTOR.json(line) == encode({"kind": "tool_result", "args": [REDACTED, {"q": f"a {REDACTED}", REDACTED: 1}], "result": {"tag": "err", "err": f"no {REDACTED}!"},
                                          "raised": {"args": [f"'{REDACTED}'"]}})


@pytest.mark.parametrize(("text", "cleaned"), [
    ("hun2", REDACTED), ("the hun2.", f"the {REDACTED}."), ("(hun2)hun2", f"({REDACTED}){REDACTED}"), ("_hun2_", f"_{REDACTED}_"), ("密hun2密", f"密{REDACTED}密"), ("\nhun2\n", f"\n{REDACTED}\n"),
    ("\\nhun2", f"\\n{REDACTED}"), ("shun2", "shun2"), ("hun22", "hun22"), ("hun2s", "hun2s"), ("HUN2", "HUN2"), ("ahun2 hun2a hun2", f"ahun2 hun2a {REDACTED}"), ("aHVuMg==", f"{REDACTED}=="),
    ("xaHVuMg==", "xaHVuMg=="), (f"{CANARY}hun2", REDACTED + REDACTED), (f"hun2{CANARY}hun2", REDACTED * 3),
])
def test_a_short_secret_goes_as_a_whole_word_only(text: str, cleaned: str) -> None:
    assert REDACTOR.text(text) == cleaned
    line = encode([text])
    assert decode(REDACTOR.json(line)) == [cleaned]
    assert (REDACTOR.json(line) is line) is (text == cleaned)


@pytest.mark.parametrize(("secret", "text", "cleaned"), [
    ("-a-a", "x-a-a-a-ay", f"x{REDACTED}-ay"), ("a.b.", "a.b.a.b.c", f"{REDACTED}{REDACTED}c"), (".abc", "x.abc x.abcd", f"x{REDACTED} x.abcd"), ("abc.", "abc.d xabc.d", f"{REDACTED}d xabc.d"),
])
def test_a_short_secret_with_punctuation_at_its_edge_stands_alone_there(secret: str, text: str, cleaned: str) -> None:
    assert Redactor(environ={}, secrets=[secret]).text(text) == cleaned


def test_secrets_that_overlap_go_together() -> None:
    redactor = Redactor(environ={}, secrets=["abcdefgh12", "gh12ijklmnop", "cdefgh12", "zzzz"])
    assert redactor.text("-abcdefgh12ijklmnop-") == f"-{REDACTED}-"
    assert redactor.text("-abcdefgh12-gh12ijklmnop-") == f"-{REDACTED}-{REDACTED}-"
    assert redactor.value(["cdefgh12ijkl"]) == [f"{REDACTED}ijkl"]


@pytest.mark.parametrize("number", [int(NUMERIC), -int(NUMERIC), int("7" + NUMERIC), float(NUMERIC), int(f"{NUMERIC}9" * 3)])
def test_a_number_with_a_long_secret_in_its_digits_becomes_the_mark(number: float) -> None:
    assert REDACTOR.value({"n": [number, 5]}) == {"n": [REDACTED, 5]}
    if abs(number) < 2**64:
        assert REDACTOR.json(encode([number])) == encode([REDACTED])


def test_other_numbers_stay_with_their_types() -> None:
    redactor = Redactor(environ={}, secrets=["1234", "12345678"])
    line = encode([1234, 1234567, 1.5, -0.0, True, None, 1e300, 123456790, "12345678", 12345678])
    assert redactor.json(line) == encode([1234, 1234567, 1.5, -0.0, True, None, 1e300, 123456790, REDACTED, REDACTED])


def test_keys_that_become_equal_lose_no_value() -> None:
    redactor = Redactor(environ={}, secrets=["first-secret", "other-secret", "third-secret"])
    value = {"first-secret": 1, "a": 2, "other-secret": 3, "<redacted>#2": 4, "third-secret": 5, "x first-secret": 6, "x other-secret": 7, "": 8}
    cleaned = redactor.value(value)
    assert list(cleaned.items()) == [(REDACTED, 1), ("a", 2), (f"{REDACTED}#3", 3), (f"{REDACTED}#2", 4), (f"{REDACTED}#4", 5), (f"x {REDACTED}", 6), (f"x {REDACTED}#2", 7), ("", 8)]
    assert redactor.value(cleaned) is cleaned
    assert redactor.value({REDACTED: 1, "first-secret": 2}) == {REDACTED: 1, f"{REDACTED}#2": 2}
    many = redactor.value({f"{at} {name}": at for at in range(100) for name in ("first-secret", "other-secret")} | {"first-secret": -1})
    assert len(many) == 201


def test_the_order_of_keys_and_all_other_types_stay() -> None:
    value = {"z": None, "a": [True, 1, 1.0, "1", -0.0, [], {}], CANARY: {"é": "\u2028\U0001f600\x00"}, "m": 2**64 - 1}
    assert REDACTOR.json(encode(value)) == encode(value).replace(CANARY.encode(), REDACTED.encode())


def test_patterns_can_be_left_out() -> None:
    redactor = Redactor(environ={"A_KEY": CANARY}, patterns=False)
    for value in ({"password": "x"}, "Bearer SECRET_TOKEN_12345", '{"token": "x"}'):
        assert redactor.value(value) is value
        line = encode(value)
        assert redactor.json(line) is line
    assert redactor.json(encode([CANARY])) == encode([REDACTED])


def test_without_any_secret_nothing_changes() -> None:
    redactor = Redactor(environ={}, patterns=False)
    line = encode({"a": ["x", 12345678901]})
    assert redactor.json(line) is line
    value = decode(line)
    assert redactor.value(value) is value


def test_more_secrets_than_one_scan_takes_are_all_found() -> None:
    secrets = [f"secret-number-{at:03d}-{'x' * (at % 7)}" for at in range(300)]
    words = [f"w{at:03d}" for at in range(100)]
    for chosen in (secrets, words, secrets + words):
        redactor = Redactor(environ={}, secrets=chosen)
        for secret in chosen:
            assert redactor.json(encode([f"a {secret} b"])) == encode([f"a {REDACTED} b"])
        clean = encode(["nothing " * 100])
        assert redactor.json(clean) is clean


@pytest.mark.parametrize(("secrets", "text"), [
    (["ken-abcdef12"], "token-abcdef12"), (["ken1"], "broken1 to.ken1"), (["x-sk-"], "(x-sk-1)"), (["AKIA"], "AKIAKIA AKIA"), (["ab-cd", "-cde"], "xab-cde"), (["x-sk-"], "ax-sk-abcdef0123456789"),
    (["-a-a"], "x-a-ab-a-a"), (["ookie"], "(ookie)"), (["BEGI"], "BEGIN BEGI"), (["github_pat_"], "github_pat_"), (["s/ap", "ap/ix-yz"], "caps/ap/ix-yz"),
])
def test_a_secret_behind_a_coincidence_is_found(secrets: list[str], text: str) -> None:
    """One scan reports no overlapping matches: what begins like a token, and is none, must hide nothing."""
    redactor = Redactor(environ={}, secrets=secrets)
    cleaned = redactor._plan._clean(text.encode()).decode()
    assert cleaned != text
    assert redactor.text(text) == cleaned
    assert redactor.json(encode([text])) == encode([cleaned])


# Where secrets come from


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "from-the-environment")
    monkeypatch.setenv("SOME_URL", "postgres://me:pass%2Fword9@host/db")
    redactor = Redactor()
    monkeypatch.delenv("SOME_API_KEY")
    assert redactor.text("from-the-environment pass%2Fword9 pass/word9") == " ".join([REDACTED] * 3)
    assert Redactor().text("from-the-environment") == "from-the-environment"


def test_what_is_put_into_the_environment_later_is_a_secret_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program takes it out again, and still holds it."""
    redactor = Redactor(patterns=False)
    secrets = [f"late-secret-{number}" for number in range(6)]
    assert redactor.text(secrets[0]) == secrets[0]
    monkeypatch.setenv("LATE_TOKEN", secrets[0])
    assert redactor.json(encode([secrets[0]])) == b'["<redacted>"]'
    monkeypatch.setenv("LATE_TOKEN", secrets[1])
    monkeypatch.delenv("LATE_TOKEN")
    os.environb[b"LATE_KEY"] = secrets[2].encode()
    os.putenv("LATE_PASSWORD", secrets[3])
    os.environ.update(LATE_URL=f"https://me:{secrets[4]}@host/", LATE=secrets[5])
    try:
        assert redactor.value(secrets) == [REDACTED] * 5 + [secrets[5]]
        assert Redactor(patterns=False).value(secrets) == [secrets[0], secrets[1], REDACTED, secrets[3], REDACTED, secrets[5]], "what is not there any more"
    finally:
        for name in ("LATE_KEY", "LATE_URL", "LATE"):
            del os.environ[name]
        os.unsetenv("LATE_PASSWORD")


def test_only_the_process_own_environment_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"A_KEY": "first-secret"}
    redactor = Redactor(environ=environ, patterns=False)
    environ["A_KEY"] = "second-secret"
    monkeypatch.setenv("LATE_TOKEN", "third-secret")
    assert redactor.value(["first-secret", "second-secret", "third-secret"]) == [REDACTED, "second-secret", "third-secret"]


def test_threads_that_set_variables_lose_none(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor(patterns=False)
    for number in range(8):
        monkeypatch.setenv(f"THREAD{number}_TOKEN", "")
    start = threading.Barrier(8)
    kept: list[str] = []

    def run(number: int) -> None:
        start.wait()
        for at in range(15):
            secret = f"thread-{number}-secret-{at}"
            os.environ[f"THREAD{number}_TOKEN"] = secret
            if redactor.text(secret) != REDACTED:
                kept.append(secret)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept == []


def test_a_forked_child_sees_what_it_puts_there_itself() -> None:
    program = ("import os\nfrom replay.redaction import hidden\nfrom replay.redaction.redactor import Redactor, hide\nredactor = Redactor()\n"
               "hidden._lock.acquire()\n"  # as another thread may hold it just then
               "child = os.fork()\n"
               "if child == 0:\n    os.environ['A_TOKEN'] = 'secret-of-a-child'\n    hide('hidden-by-a-child')\n"
               "    os._exit(redactor.text('secret-of-a-child hidden-by-a-child') != '<redacted> <redacted>')\n"
               "print(os.waitpid(child, 0)[1])")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_redactors_that_are_gone_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(50):
        Redactor()
    gc.collect()
    redactor = Redactor()
    assert hidden._watching is not None
    alive = [one() for one in hidden._watching if one() is not None]
    assert len(hidden._watching) == len(alive)
    assert redactor._environment in alive
    monkeypatch.setenv("LATE_TOKEN", "seen-by-those-alive")
    assert redactor.text("seen-by-those-alive") == REDACTED


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "user=me&password="])
@pytest.mark.parametrize("after", ["", ":", "\n...", "@host/path"])
def test_a_long_secret_is_found_wherever_it_stands_in_base64(before: str, after: str) -> None:
    for secret in ("canary-7f3a91c2", "twelve-chars", "ünïcode-secret-é?>"):
        redactor = Redactor(environ={}, secrets=[secret], patterns=False)
        data = f"{before}{secret}{after}".encode()
        for text in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
            cleaned = redactor.text(f"x {text} y")
            assert REDACTED in cleaned
            assert redactor.json(encode([text])) == encode([cleaned[2:-2]])
            left = cleaned[2:].partition(REDACTED)[0]
            assert len(left) * 6 // 8 <= len(before.encode()) + 1, "of the secret at most a byte is left"
            assert cleaned.endswith(f"{REDACTED} y")


def test_a_variable_that_is_no_utf8_is_found_in_texts_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"BAD_TOKEN", b"\xff\xfesecret\xff")
    redactor = Redactor()
    assert redactor.text(f"so {os.environ['BAD_TOKEN']}!") == f"so {REDACTED}!"
    line = encode(["clean"])
    assert redactor.json(line) is line


@pytest.mark.parametrize("secret", ["", "abc", "  abc  "])
def test_a_secret_too_short_to_look_for_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="at least 4 characters"):
        Redactor(environ={}, secrets=[secret])


@pytest.mark.usefixtures("_nothing_hidden")
def test_what_is_hidden_later_is_found_by_redactors_made_before() -> None:
    before = Redactor(environ={})
    line = encode(["a hidden-later-on value"])
    assert before.json(line) is line
    hide("hidden-later-on")
    for redactor in (before, Redactor(environ={})):
        assert redactor.json(line) == encode([f"a {REDACTED} value"])
        assert redactor.text("hidden-later-on") == REDACTED
        assert redactor.value(["hidden-later-on"]) == [REDACTED]


@pytest.mark.usefixtures("_nothing_hidden")
def test_hiding_while_other_threads_redact_loses_nothing() -> None:
    redactor = Redactor(environ={})
    wrong: list[str] = []

    def run(number: int) -> None:
        for at in range(20):
            secret = f"thread-{number}-secret-{at}"
            hide(secret)
            if secret.encode() in redactor.json(encode([secret])):
                wrong.append(secret)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Odd input


def test_what_is_no_json_is_an_error_only_where_a_secret_may_be() -> None:
    assert REDACTOR.json(b"{clean") == b"{clean"
    with pytest.raises(ValueError, match=r".+"):
        REDACTOR.json(f"{{{CANARY}".encode())


def test_a_value_without_end_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(NotRecordable, match="too deep"):
        REDACTOR.value(value)


def test_a_deep_value_is_cleaned() -> None:
    value: Any = CANARY
    for at in range(125):
        value = [value] if at % 2 else {"a": value}
    cleaned = REDACTOR.json(encode(value))
    assert CANARY.encode() not in cleaned
    assert cleaned == encode(value).replace(CANARY.encode(), REDACTED.encode())


def test_a_tuple_is_as_good_as_a_list() -> None:
    value = ("a", ["b"])
    assert REDACTOR.value(value) is value
    assert REDACTOR.value((CANARY, ("b",))) == [REDACTED, ("b",)]


def test_a_text_with_lone_surrogates_is_cleaned() -> None:
    assert REDACTOR.text(f"\udcff {CANARY} \ud800") == f"\udcff {REDACTED} \ud800"
    clean = "caf\udce9"
    assert REDACTOR.text(clean) is clean


@pytest.mark.parametrize("secret", ["redacted", "<redacted>", "<red", "acted", "d><r", "ed>tail", "x<redacted>y"])
def test_a_secret_made_of_the_mark_does_not_grow_it(secret: str) -> None:
    redactor = Redactor(environ={}, secrets=[secret, "topsecret"])
    for text in (REDACTED, f"topsecret{secret}", f"{secret} {REDACTED}{REDACTED}tail", "topsecrettail x topsecret y", "xtopsecrety"):
        once = redactor.text(text)
        assert redactor.text(once) == once
    assert redactor.text(f"kept topsecret {REDACTED}") == f"kept {REDACTED} {REDACTED}"


@pytest.mark.parametrize("text", [
    '-----BEGIN PRIVATE KEY----- abc "token":"-----" -----END PRIVATE KEY-----', f"{CANARY}sk-abcdefghijklmnopqrst1", f"Bearer {CANARY}0123456789", f"postgres://u:{CANARY}@h hun2:x@",
    f'{{"password": "{CANARY}\\"}}', 'a "password": \'token\': "secret": "x', f"://:{REDACTED}@", f"{CANARY}AKIAIOSFODNN7EXAMPLE{CANARY}hun2",
])
def test_what_one_secret_uncovers_goes_too(text: str) -> None:
    once = REDACTOR.text(text)
    assert once != text or REDACTED in text
    assert REDACTOR.text(once) == once


def test_a_text_that_does_not_come_to_rest_goes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"a {CANARY}hun2 b"  # the word is uncovered by taking out what is before it
    assert REDACTOR.text(text) == f"a {REDACTED}{REDACTED} b"
    monkeypatch.setattr(redaction, "_PASSES", 1)
    assert REDACTOR.text(text) == REDACTED


# Laws


SECRETS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>"), min_size=8, max_size=24).map(str.strip).filter(lambda text: len(text) >= 8)
WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=4, max_size=7)
PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def planted(draw: st.DrawFn) -> tuple[str, Any]:
    """Give a secret, and a value in which it is planted at least once: in strings and keys, as it is and in other forms."""
    secret = draw(SECRETS)
    written = [secret, json.dumps(secret), json.dumps({"a": [secret]}, ensure_ascii=False), quote(secret), quote_plus(secret), repr(secret), repr({"a": secret}), f"Bearer {secret}",
               f"https://u:{secret}@host/", json.dumps(json.dumps([secret]))]
    spoiled = st.builds("{}{}{}".format, PLAIN, st.sampled_from(written), PLAIN)
    inner = st.recursive(spoiled | PLAIN | st.integers(-(2**63), 2**63) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False),
                         lambda part: st.lists(part, max_size=3) | st.dictionaries(spoiled | PLAIN, part, max_size=3), max_leaves=8)
    return secret, [draw(spoiled), draw(inner), {draw(spoiled): draw(inner)}]


@settings(max_examples=60, deadline=None)
@given(planted())
def test_no_secret_survives_wherever_it_is_planted(case: tuple[str, Any]) -> None:
    """R165, R204, row 19."""
    secret, value = case
    redactor = Redactor(environ={"PLANTED_SECRET": secret})
    assume(secret.lower() not in hidden._NO_SECRETS)
    cleaned = redactor.value(value)
    assert not holds(cleaned, secret)
    line = redactor.json(encode(value))
    assert decode(line) == cleaned
    assert match_key(decode(line)) == match_key(cleaned), "live arguments match what was written (R166, row 20)"
    assert not any(secret in part for part in redactor.text(json.dumps(value, ensure_ascii=False)).split(REDACTED))
    assert redactor.value(cleaned) is cleaned
    assert redactor.json(line) is line


@settings(deadline=None)
@given(WORDS, PLAIN, PLAIN)
def test_no_short_secret_survives_as_a_word(word: str, before: str, after: str) -> None:
    assume(word.lower() not in hidden._NO_SECRETS)
    assume(not (before[-1:].isascii() and before[-1:].isalnum()) and not (after[:1].isascii() and after[:1].isalnum()))
    redactor = Redactor(environ={"A_PASSWORD": word})
    text = f"{before}{word}{after}"
    assert redactor.text(text) != text
    assert redactor.json(encode([text])) == encode([redactor.text(text)])


PIECES = [
    *(literal.decode() for literal, _ in LITERALS), CANARY, CANARY[:6], CANARY[6:], "hun2", "un2", ODD, NUMERIC, "sk-abcdef0123456789", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\nMIIEvQIBADANBgkqhkiG9w0B", "Bearer ", "Basic dXNlcjpwYXNz", "://", ":", "@", "u:p@", '"token":"', "'password': '", '\\"api_key\\": \\"',
    '"', "'", "\\", "\\n", "\n", " ", "-", "_", "=", "a", "0", "é", "\U0001f600", REDACTED, "%3D", "\\u003d", ",", "}", "012345678901234567890123456789012345",
]


OVERLAPPING = Redactor(environ={}, secrets=["oken-abcdef", "x-sk-", "-----BEGIN-", "pik3", "a_hf_", "AKIA", "hun2", "2hun", CANARY, "eyJh", "ken-abcdef12", "://u:p@h", "bcde", "cdef", "n/a?"])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([*PIECES, "oken-abcdef", "x-sk-", "a_hf_", "2hun", "://u:p@h", "abcdef", "bcde", "token-abcdef12"]), max_size=9).map("".join), st.sampled_from([REDACTOR, OVERLAPPING]))
@example("sk------BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B", REDACTOR)
@example("token-abcdef", OVERLAPPING)
@example("token-abcdef12", OVERLAPPING)
@example("a.x-sk-abcdef0123456789", OVERLAPPING)
@example("tokenpm_0123456789012345678901234567890123456789", REDACTOR)
@example("2hun2", OVERLAPPING)
@example("bcdef", OVERLAPPING)
def test_the_quick_look_never_misses_what_the_long_one_finds(text: str, redactor: Redactor) -> None:
    """The scan of the JSON, with its shortcuts, and the scan of the text against cleaning everything without looking first."""
    cleaned = redactor._plan._clean(text.encode()).decode()
    assert redactor.text(text) == cleaned
    line = encode({"args": [text]})
    assert redactor.json(line) == encode({"args": [cleaned]})
    assert (redactor.json(line) is line) is (cleaned == text)
    assert redactor.text(cleaned) == cleaned
    assert redactor.json(redactor.json(line)) == redactor.json(line)


VALUES = st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | PLAIN,
                      lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PLAIN | st.sampled_from(["password", "apiKey", "token", "id"]), inner, max_size=4), max_leaves=12)


@settings(deadline=None)
@given(VALUES)
def test_cleaning_is_done_once_and_leaves_the_clean_alone(value: Any) -> None:
    cleaned = REDACTOR.value(value)
    assert (cleaned is value) is (match_key(cleaned) == match_key(value))
    assert REDACTOR.value(cleaned) is cleaned
    line = encode(value)
    assert REDACTOR.json(line) == encode(cleaned)
    assert (REDACTOR.json(line) is line) is (cleaned is value)
    assert match_key(canonical(REDACTOR.value(canonical(value)))) == match_key(canonical(cleaned))


def test_all_pairs_of_pieces_are_cleaned_alike_in_text_and_in_json() -> None:
    for first, second in itertools.product(PIECES, repeat=2):
        text = f"{first}{second}"
        assert decode(REDACTOR.json(encode([text]))) == [REDACTOR._plan._clean(text.encode()).decode()], text
