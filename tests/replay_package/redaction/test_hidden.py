"""What is a secret, and the forms in which one may come by."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.redaction import hidden
from replay.redaction.hidden import forms, hide, names_a_secret_variable, of_environment, usable


@pytest.fixture(autouse=True)
def _nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave what is hidden in this process as it was."""
    monkeypatch.setattr(hidden, "_hidden", hidden.hidden())
    yield
    monkeypatch.undo()


@pytest.mark.parametrize("name", [
    "OPENAI_API_KEY", "openai_api_key", "OpenAI_Api_Key", "KEY", "GITHUB_TOKEN", "TOKEN", "GH_PAT", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "SMTP_PASS", "ROOT_PASSWD",
    "CLIENT_SECRET", "APP_SECRETS", "SENTRY_DSN", "GOOGLE_CREDENTIALS", "AWS_CREDENTIAL", "APIKEY", "MYAPIKEY", "API_KEY_2", "API_KEY3", "KEY_PASSPHRASE", "BASIC_AUTH",
    "SESSION_COOKIE", "my-api-key", "SECRET_KEY_BASE", "API_KEY_OPENAI", "DEPLOY_PRIVATE_KEY_PEM",
])
def test_a_variable_is_a_secret_by_its_name(name: str) -> None:
    assert names_a_secret_variable(name)
    assert list(of_environment({name: "  hunter2 \n"})) == ["hunter2"]


@pytest.mark.parametrize("name", [
    "PWD", "OLDPWD", "PATH", "HOME", "MONKEY", "COMPASS", "KEYBOARD", "PATTERN", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "GIT_ASKPASS", "SSH_AUTH_SOCK", "XAUTHORITY", "AUTHOR",
    "API_KEY_FILE", "SECRET_KEY_PATH", "AWS_ACCESS_KEY_ID", "PASSWORD_STORE_DIR", "COOKIE_JAR", "", "_", "2", "LANG",
])
def test_other_variables_are_none(name: str) -> None:
    assert not names_a_secret_variable(name)
    assert list(of_environment({name: "hunter2hunter2"})) == []


@pytest.mark.parametrize("value", ["", " ", "abc", "1", "true", "None", "FALSE", "disabled", " ab "])
def test_a_value_that_is_too_short_or_a_plain_word_is_no_secret(value: str) -> None:
    """Row 19: a secret `1` must not hide every 1."""
    assert list(of_environment({"A_TOKEN": value})) == []


def test_the_password_in_the_url_of_any_variable_is_a_secret() -> None:
    found = set(of_environment({"DATABASE_URL": "postgres://me:p%40ss-word@host/db redis://:other-one@h", "SHORT_URL": "a://b:c@d", "PLAIN_URL": "https://host:8080/a@b"}))
    assert found == {"p%40ss-word", "p@ss-word", "other-one"}


def test_what_is_hidden_is_known_to_the_process_once() -> None:
    version, _ = hidden.hidden()
    hide("  hidden by name ")
    hide("hidden by name")
    after, known = hidden.hidden()
    assert after == version + 1
    assert known[-1] == "hidden by name"


@pytest.mark.parametrize("secret", ["", "   ", "abc", " abc ", "\n\n\n\n\n"])
def test_hiding_what_is_everywhere_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="at least 4 characters"):
        hide(secret)
    with pytest.raises(ValueError, match="at least 4 characters") as refusal:
        usable(secret)
    assert secret.strip() not in str(refusal.value) or not secret.strip()


def test_hiding_what_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        hide(None)  # type: ignore[arg-type]


def test_hiding_is_safe_from_many_threads() -> None:
    version, known = hidden.hidden()
    start = threading.Barrier(8)

    def run(number: int) -> None:
        start.wait()
        for at in range(200):
            hide(f"thread {number} secret {at}")
            hide(f"common secret {at}")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after, all_known = hidden.hidden()
    assert len(all_known) == len(set(all_known)) == len(known) + 9 * 200
    assert after == version + 9 * 200


def test_an_environment_takes_what_is_set_and_nothing_else() -> None:
    environment = hidden.Environment()
    before = len(environment.secrets)
    for event, arguments in [("os.putenv", (b"A_TOKEN", b"set-by-bytes")), ("os.putenv", (b"A_TOKEN", b"set-by-bytes")), ("os.putenv", ("B_TOKEN", "set-by-text")),
                             ("os.putenv", (b"PLAIN", b"no-secret-here")), ("os.putenv", (b"C_TOKEN", b"\xff-no-utf8")), ("os.unsetenv", (b"A_TOKEN",)), ("open", ("f", "r", 0))]:
        hidden._seen(event, arguments)
    assert environment.secrets[before:] == ["set-by-bytes", "set-by-text", "\udcff-no-utf8"]


def test_a_child_begins_with_a_lock_of_its_own() -> None:
    held = hidden._lock
    with held:
        hidden._after_fork_in_child()
        hide("hidden in a child")
    assert hidden._lock is not held


def test_a_plain_secret_has_few_forms() -> None:
    assert {(form.text, form.word) for form in forms("abc-DEF_123")} == {("abc-DEF_123", False), (base64.b64encode(b"abc-DEF_1").decode(), False)}
    assert len(forms("abc-DEF_1234")) == 1 + 3, "from twelve characters on also where one or two bytes come first"
    assert {(form.text, form.word) for form in forms("hunter2")} == {("hunter2", True), ("aHVudGVyMg", True)}


@settings(deadline=None)
@given(st.text(min_size=4, max_size=20), st.text(max_size=5))
def test_every_way_to_write_a_secret_has_one_of_its_forms(secret: str, more: str) -> None:
    texts = {form.text for form in forms(secret)}
    data = secret.encode("utf-8", "surrogatepass")
    in_json = json.dumps(secret), json.dumps(secret, ensure_ascii=False)
    written = [secret, quote(data), quote(data, safe=""), quote_plus(data), quote(data, safe="!'()*~"), *in_json, *map(json.dumps, in_json), json.dumps(in_json[1], ensure_ascii=False),
               repr(secret), repr([secret]), repr({secret: "it's"}), repr(secret + "'"), repr(secret + "'\""),
               base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()]
    if len(secret) >= 8:
        written.append(base64.b64encode(data + more.encode("utf-8", "surrogatepass")).decode())
    for text in written:
        assert any(form in text for form in texts), text


@settings(deadline=None)
@given(st.text(min_size=4, max_size=20))
def test_a_form_is_never_too_short(secret: str) -> None:
    found = forms(secret)
    assert all(len(form.text) >= 4 for form in found)
    assert {form.word for form in found} == {len(secret) < 8}
