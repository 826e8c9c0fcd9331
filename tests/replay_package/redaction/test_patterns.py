"""Secrets that are known by their looks, and much that only looks a little like one."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import uuid
from typing import Any

import pytest

from replay.jsontext import decode, encode
from replay.redaction.patterns import EDGE, LITERALS, PATTERNS, names_a_secret, overlap
from replay.redaction.redactor import REDACTED, Redactor

REDACTOR = Redactor(environ={})
JWT = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"1234567890","name":"Somebody"}', b"\x01" * 32))
LINES = "\n".join(base64.b64encode(hashlib.sha512(bytes([at])).digest()[:48]).decode() for at in range(5))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{LINES}\n-----END RSA PRIVATE KEY-----"
ENCRYPTED = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0011\n\n{LINES}\n-----END RSA PRIVATE KEY-----"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

# One text per literal, all of which is a secret.
TOKENS = {
    "sk-": ["sk-proj-" + LETTERS[:40] + "-9_x", "sk-ant-api03-" + LETTERS, "sk-" + LETTERS[:24], "sk-test-1234567890abcdef"],
    "ghp_": ["ghp_" + LETTERS[20:56]], "gho_": ["gho_" + LETTERS[20:56]], "ghu_": ["ghu_" + LETTERS[20:56]], "ghs_": ["ghs_" + LETTERS[20:56]], "ghr_": ["ghr_" + LETTERS[20:56]],
    "github_pat_": ["github_pat_11ABCDEFG0" + LETTERS[:12] + "_" + LETTERS[:40]],
    "AKIA": ["AKIAIOSFODNN7EXAMPLE"], "ASIA": ["ASIAIOSFODNN7EXAMPLE"], "AIza": ["AIzaSy" + LETTERS[:33]],
    "xox": ["xoxb-123456789012-" + LETTERS[:24], "xoxp-1-2-3-abcdef0123456789"],
    "eyJ": [JWT, JWT.rpartition(".")[0] + "."], "hf_": ["hf_" + LETTERS[:34]], "glpat-": ["glpat-" + LETTERS[44:62] + "_-"], "npm_": ["npm_" + LETTERS[:36]],
    "pypi-": ["pypi-AgEIcHlwaS5vcmc" + LETTERS], "BEGIN ": [PEM, ENCRYPTED, PEM.replace("RSA ", ""), PEM.replace("RSA", "OPENSSH"), PEM.replace("\n", "\r\n"), PEM.replace("\n", "\\n"),
              PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"), PEM.rpartition("\n")[0], PEM.replace("\n", " ")],
}
# One text per literal with the part of it that is a secret.
PARTS = {
    "://": [("postgres://me:", "hunter2", "@host:5432/db"), ("redis://:", "p", "@h"), ("mongodb+srv://u:", "a%40b@c:d", "@h/?x=1"), ("https://u:", "pa,ss=w;ord", "@h")],
    "earer ": [("Authorization: Bearer ", "SECRET_TOKEN_12345", ""), ("curl -H 'authorization: bearer ", "abc123def4", "' x"), ("Bearer   ", "a" * 24, " x")],
    "EARER ": [("BEARER ", "abcdef123456==", ", x")],
    "asic ": [("Authorization: Basic ", base64.b64encode(b"user:pass").decode(), " x"), ("basic ", base64.b64encode("ü:é".encode()).decode(), "")],
    "ASIC ": [("BASIC ", base64.b64encode(b"user:password1").decode().rstrip("="), "")],
}
NAMED = ["password", "Password", "PASSWORD", "PassWord", "passWord", "passwd", "PASSWD", "passphrase", "PASSPHRASE", "secret", "Secret", "client_secret", "clientSecret", "ClientSecret",
         "CLIENT_SECRET", "secret_key", "SecretAccessKey", "aws_secret_access_key", "private_key", "privateKey", "PRIVATE-KEY", "token", "Token", "access_token", "accessToken", "ACCESS_TOKEN",
         "refresh-token", "id_token", "idToken", "auth_token", "X-Auth-Token", "x_auth_token", "api_token", "api_key", "api-key", "apikey", "apiKey", "ApiKey", "API_KEY", "APIKEY", "APIKey",
         "x-api-key", "X-API-Key", "X-Api-Key", "x_api_key", "authorization", "Authorization", "AUTHORIZATION", "Proxy-Authorization", "cookie", "Cookie", "COOKIE", "Set-Cookie", "set_cookie",
         "session_token", "bearer_token"]

ORDINARY = [
    "task-oriented-architecture-and-more", "risk-adjusted-return-on-capital-2024", "a sk-learn-compatible-estimator and sk-learn", "sk-short1", "desk-sk-and", "disk-0123456789abcdef0123",
    "Basic understanding of the matter", "basic principles", "Basic authentication", "BASIC INSTRUCTIONS", "basic abcdefgh", "Basic YWJjZGVmZ2hp", "Basic //// x", "Basic ADoBYWJj",
    "Bearer of bad news", "bearer instruments are negotiable", "Bearer authentication", "the Bearer {token}", "Bearer YOUR_API_KEY", "Bearer access_token", "forbearer abcdef123456", "Bearer abc1",
    hashlib.sha256(b"x").hexdigest(), hashlib.sha512(b"x").hexdigest(), "sha256:" + hashlib.sha256(b"y").hexdigest(), str(uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF)),
    base64.b64encode(bytes(range(256)) * 4).decode(), "data:image/png;base64," + base64.b64encode(hashlib.sha512(b"z").digest()).decode(), base64.b64encode(b'{"a": "base64 of JSON begins so"}').decode(),
    base64.urlsafe_b64encode(b"".join(hashlib.sha512(bytes([at])).digest() for at in range(200))).decode(),
    "https://example.com:8080/path?q=a@b", "http://localhost:3000/@vite/client", "http://host:80?x=a:b@c", "ssh://git@host:22/x", "git@github.com:me/repo.git", "mailto:me@example.com",
    "docker://alpine:3.18@sha256:" + "0" * 64, "see http://a.b/c: write to me@example.com", "https://user@host/", "s3://bucket/key",
    "ASIA PACIFIC REGION", "ASIAN ELEPHANTS", "Asiatic", "AKIAshort", "AIza", "xoxo", "xox hugs-and-kisses-all-over", "eyJ", "eyJhbGciOiJIUzI1NiJ9 alone", "eyJ.a.b",
    "hf_hub_download", "hf_", "npm_config_registry", "npm_lifecycle_event", "npm_package_json", "pypi-server", "pypi-mirror-for-the-organisation-and-more", "glpat-", "glpat-short",
    "ghp_short", "gho_", "github_pat_", "weigh_things_up_and_more_0123456789abcdef",
    "BEGIN TRANSACTION; COMMIT", "a file that begins with -----BEGIN PRIVATE KEY----- holds a key.", "-----BEGIN CERTIFICATE-----\n" + LINES + "\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\n" + LINES + "\n-----END PUBLIC KEY-----", "-----BEGIN PRIVATE KEY-----\nshort\nlines",
    "the password is secret, the token is an API key: api_key", "token: abc", "password=hunter", '"tokens": "a"', '"max_tokens": 5', '"token": 5', '"token" : null', '"next_token": "abc"', '"api": "x"',
    '"password": ""', '"pAsSwOrD": "x"', '"secretary": "x"', "'cookies': 'x'", '"token', '"token":', '"token": ', "'token\": 'x'", '"author": "x"', '"mytoken": "x"', '"private": "y"',
]


@pytest.mark.parametrize("context", ["%s", "key=%s", "x %s, y", '{"a": "%s"}', "(%s)", "key\n%s\n", "a\\n%s", "a\\u003d%s", "k%%3D%s", "密钥%s密", "-%s ", "a_%s", "\t%s\x00"])
def test_a_token_is_taken_out_wherever_it_stands(context: str) -> None:
    expected = context % REDACTED
    for token in itertools.chain(*TOKENS.values()):
        text = context % token
        assert REDACTOR.text(text) == expected, token
        assert decode(REDACTOR.json(encode([text]))) == [expected], token
        assert decode(REDACTOR.json(encode({text: 1}))) == {expected: 1}, token


@pytest.mark.parametrize("parts", list(itertools.chain(*PARTS.values())))
@pytest.mark.parametrize("context", ["%s", "x %s", '{"a": "%s"}', "key\n%s\n", "密 %s"])
def test_of_credentials_only_the_secret_part_is_taken_out(parts: tuple[str, str, str], context: str) -> None:
    before, secret, after = parts
    text, expected = context % f"{before}{secret}{after}", context % f"{before}{REDACTED}{after}"
    assert REDACTOR.text(text) == expected
    assert decode(REDACTOR.json(encode({"a": [text]}))) == {"a": [expected]}


@pytest.mark.parametrize("text", ORDINARY, ids=lambda text: text[:24])
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    for written in (text, f"so {text} is", f"{text}\n{text}", f"{text} and (" + text + ")"):
        assert REDACTOR.text(written) is written
        line = encode({"result": [written, {written: None}], "n": 1})
        assert REDACTOR.json(line) is line


@pytest.mark.parametrize("key", NAMED)
def test_a_string_under_a_telling_key_is_taken_out_whole(key: str) -> None:
    assert names_a_secret(key.encode())
    line = encode({"a": {key: "x y", "b": 1}})
    assert REDACTOR.json(line) == encode({"a": {key: REDACTED, "b": 1}})
    assert REDACTOR.json(encode({key: ["a=1", 2, {"b": "c"}, ["d"]]})) == encode({key: [REDACTED, 2, {"b": "c"}, ["d"]]})
    for other in (None, 5, True, {"b": "c"}, "", REDACTED, [], [1]):
        line = encode({key: other})
        assert REDACTOR.json(line) is line


@pytest.mark.parametrize("write", [json.dumps, lambda value: json.dumps(value, indent=1), lambda value: json.dumps(json.dumps(value)),
                                   lambda value: json.dumps(json.dumps(json.dumps(value))), repr, lambda value: encode(value).decode()],
                         ids=["json", "indented", "twice", "thrice", "repr", "compact"])
def test_so_is_one_in_a_document_inside_a_string(write: Any) -> None:
    for key in NAMED:
        value = {"first": "kept", key: 'a "quoted" \\ and \\" \n', "last": "kept, too"}
        cleaned = {**value, key: REDACTED}
        assert REDACTOR.value([write(value)]) == [write(cleaned)], key
        assert decode(REDACTOR.json(encode([write(value)]))) == [write(cleaned)], key


def test_members_that_follow_one_another_are_all_seen() -> None:
    assert REDACTOR.text('{"a":"","token":"x","b":"y","secret":"","password":"z"}') == f'{{"a":"","token":"{REDACTED}","b":"y","secret":"","password":"{REDACTED}"}}'


def test_a_document_that_was_cut_is_taken_out_to_its_end() -> None:
    assert REDACTOR.text('so {"a": 1, "token": "abc def, \\" and') == f'so {{"a": 1, "token": "{REDACTED}'


@pytest.mark.parametrize("key", ["pass", "tokens", "max_tokens", "next_token", "secretary", "key", "author", "cookies", "pAsSwOrD", "tOkEn", "", "x" * 40 + "token", "api_key_id"])
def test_other_keys_tell_nothing(key: str) -> None:
    assert not names_a_secret(key.encode())
    line = encode({key: "value"})
    assert REDACTOR.json(line) is line


def test_several_secrets_in_one_text_go_each_by_itself() -> None:
    text = f"{PEM}\nfirst {TOKENS['sk-'][0]}, then {TOKENS['ghp_'][0]};{PEM} https://a:b@c and Bearer {JWT}."
    assert REDACTOR.text(text) == f"{REDACTED}\nfirst {REDACTED}, then {REDACTED};{REDACTED} https://a:{REDACTED}@c and Bearer {REDACTED}"


def test_every_literal_is_in_the_tables() -> None:
    of_patterns = {literal.decode() for pattern in PATTERNS for literal in pattern.literals}
    assert of_patterns == TOKENS.keys() | PARTS.keys()
    assert len(LITERALS) == len({literal for literal, _ in LITERALS})
    of_names = {literal.decode() for literal, _ in LITERALS} - of_patterns
    assert all(any(literal in name for name in NAMED) for literal in of_names)


def examples_of(literal: bytes) -> list[tuple[bytes, int]]:
    """Give texts that hold a secret by this literal, each with the place of the literal."""
    name = literal.decode()
    texts = TOKENS.get(name) or ["".join(parts) for parts in PARTS.get(name, [])] or [f'"{key}":"x"' for key in NAMED if name in key]
    return [(text.encode(), text.index(name)) for text in texts]


def test_no_literal_hides_another_one_that_matters() -> None:
    """A scan reports no overlapping matches. Where literals can overlap, the one behind is never part of a secret."""
    checks = dict(LITERALS)
    pairs = [(first, second) for first in checks for second in checks if overlap(first, second)]
    assert len(pairs) > 10
    tried = 0
    for first, second in pairs:
        for at in range(first != second or 1, len(first)):
            if not (second.startswith(first[at:]) or first.startswith(second, at)):
                continue
            for text, place in examples_of(second):
                before = first[:at]
                kept = text[max(0, place - 40):place]  # what a secret of this kind needs before its literal, of which `before` takes a part
                for context in (kept, kept[:len(kept) - at], b"", b" ", b'"', b"\\", b"\\u00", b"%", b"%3"):
                    data = context + before + text[place:]
                    assert data.startswith(first, len(context)) or not first.startswith(second, at)
                    assert not checks[second](data, len(context) + at), (first, second, data)
                    tried += 1
    assert tried > 300


def test_overlap_is_told() -> None:
    assert overlap(b"abc", b"cde")
    assert overlap(b"abc", b"bc")
    assert overlap(b"abc", b"b")
    assert overlap(b"abc", b"ab")
    assert overlap(b"aba", b"aba")
    assert not overlap(b"abc", b"abc")
    assert not overlap(b"abc", b"xab")
    assert overlap(b"ab", b"abc"), "too careful, never too little: the longer one is what the scan reports"


def test_an_edge_is_no_letter_or_an_escape() -> None:
    edge = re.compile(EDGE)
    for before in (b"", b" ", b"-", b"_", b"\xc3\xa9", b"\\n", b"\\\\t", b"\\u003d", b"%3D", b"%20"):
        assert edge.match(before + b"x", len(before)) is not None, before
    for before in (b"a", b"Z", b"9", b"n", b"\\a", b"u003d", b"%3", b"3D", b"\\x41"):
        assert edge.match(before + b"x", len(before)) is None, before


HARD = ["sk-", "eyJ-", "eyJaaaaaaaa.", "://a:", "Bearer a", "-----BEGIN PRIVATE KEY----- a-", "\\", '"token":"', "AKIA", "a"]


@pytest.mark.parametrize("unit", HARD)
def test_a_megabyte_made_to_be_slow_is_done_in_time(unit: str) -> None:
    """The time-out of the test run is the judge."""
    text = unit * (1_000_000 // len(unit))
    cleaned = REDACTOR.text(text)
    assert (cleaned is text) is (REDACTED not in cleaned)
