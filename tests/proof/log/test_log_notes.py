"""Signed notes: the vector of C2SP, one reading of every byte, keys by name and id, and bounds that come first."""

from __future__ import annotations

import base64
import copy
import hashlib
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signed import LOG, NOW, ORIGIN, note, refused, signer, witness

from rag_stdlib.proof.log.errors import ProofError
from rag_stdlib.proof.log.notes import (
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    Note,
    NoteSigner,
    Signature,
    VerifierKey,
    by_name,
    open_note,
    sign_note,
)

FOO = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
FOO_NOTE = ("This is an example message.\n\n"
            "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n").encode()
TEXT = "one\n\ntwo\n"
LINE = signer().sign(TEXT, NOW).line
SMALL_ORDER = [bytes.fromhex(text) for text in (
    "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "00" * 32, "00" * 31 + "80",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa")]


def of(body: str, *lines: str) -> bytes:
    return (body + "\n" + "".join(f"{line}\n" for line in lines)).encode()


def test_r153_the_vector_of_c2sp() -> None:
    key = VerifierKey.parse(FOO)
    opened = open_note(FOO_NOTE, [key])
    assert (opened.text, key.name, key.key_id.hex(), key.text()) == ("This is an example message.\n", "example.com/foo", "530d903a", FOO)
    assert [signed.text() for signed, _ in opened.signed] == [FOO]


@pytest.mark.parametrize("place", range(0, len(FOO_NOTE) - 1, 3))
def test_a_turned_bit_anywhere_in_the_vector_is_refused(place: int) -> None:
    turned = bytearray(FOO_NOTE)
    turned[place] ^= 2
    assert refused(lambda: open_note(bytes(turned), [VerifierKey.parse(FOO)])) in ("note_malformed", "signature_invalid", "signature_missing")


def test_a_note_that_is_signed_opens_and_holds_what_was_signed() -> None:
    data = sign_note(TEXT, [LOG, signer(2, "other.example")], NOW)
    assert data == of(TEXT, LOG.sign(TEXT, NOW).line, signer(2, "other.example").sign(TEXT, NOW).line)
    opened = open_note(data, [LOG.verifier])
    assert opened.text == TEXT
    assert [(key.name, len(signature.value)) for key, signature in opened.signed] == [(ORIGIN, 64)]


def test_the_last_empty_line_ends_the_text() -> None:
    for text in ("\n", "\n\n\n", "a\n\n\n", "\n\na\n", f"forged\n\n{LINE}\n"):
        assert Note.parse(sign_note(text, [LOG], NOW)).text == text


@pytest.mark.parametrize("data", [
    b"", b"\n", b"\n\n", b"\n\n\n", of(TEXT), of(TEXT).rstrip(), of(TEXT, LINE)[:-1], of(TEXT, LINE) + b"\n", of(TEXT, LINE, ""),
    of(TEXT, LINE, "x"), of(TEXT[:-1], LINE), f"{LINE}\n".encode(), of(TEXT, LINE).replace(b"\n", b"\r\n"), of("a\tb\n", LINE), of("a\0\n", LINE),
    of(TEXT, LINE).replace(b"one", b"on\xff"), of(TEXT, LINE).replace(b"one", b"\xed\xa0\x80"), b"\xef\xbb\xbf" * 2, of(TEXT, LINE.replace("— ", "-- ")),
    of(TEXT, LINE.replace("— ", "—  ")), of(TEXT, LINE + " "), of(TEXT, LINE.replace(ORIGIN, "a+b")), of(TEXT, LINE.replace(ORIGIN, "a\u00a0b")),
    of(TEXT, LINE.replace(ORIGIN, "a\u2003b")), of(TEXT, LINE.replace(ORIGIN, "x" * 256)), of(TEXT, "— name"), of(TEXT, "— name "), of(TEXT, "— name AAAA"),
    of(TEXT, "— name AAAAAA=="), of(TEXT, "— name !AAA"), of(TEXT, f"— name {'A' * 99}"), of(TEXT, LINE[:-1] + "\n="), of(TEXT, LINE + "===="),
], ids=repr)
def test_what_is_no_note_is_refused(data: bytes) -> None:
    assert refused(lambda: open_note(data, [LOG.verifier])) == "note_malformed"


def test_r152_bounds_come_before_work() -> None:
    sixteen = [signer(number + 10, f"key.example/{number}") for number in range(16)]
    assert len(open_note(sign_note(TEXT, sixteen, NOW), [one.verifier for one in sixteen]).signed) == 16
    lines = [LINE] * MAX_SIGNATURES
    assert len(open_note(of(TEXT, *lines), [LOG.verifier]).signed) == MAX_SIGNATURES
    assert refused(lambda: open_note(of(TEXT, *lines, LINE), [LOG.verifier])) == "note_malformed"
    assert refused(lambda: open_note(of(TEXT, *["— x !"] * 10_000), [LOG.verifier])) == "note_malformed"
    filler = "x" * (MAX_NOTE_BYTES - len(of("\n", LINE)))
    assert Note.parse(of(filler + "\n", LINE)).text == filler + "\n"
    assert refused(lambda: Note.parse(of(filler + "x\n", LINE))) == "note_malformed"
    assert refused(lambda: sign_note(filler + "x\n", [LOG], NOW)) == "note_malformed"
    assert refused(lambda: Note.parse(of(TEXT, LINE).decode())) == "note_malformed"  # type: ignore[arg-type]


def test_signatures_of_others_are_ignored_also_where_name_or_id_is_alike() -> None:
    namesake, alike = signer(7).sign(TEXT, NOW), Signature("else.example", LOG.verifier.key_id, b"x" * 64)
    assert refused(lambda: open_note(of(TEXT, namesake.line, alike.line), [LOG.verifier])) == "signature_missing"
    assert len(open_note(of(TEXT, namesake.line, alike.line, LINE), [LOG.verifier]).signed) == 1
    assert refused(lambda: open_note(of(TEXT, LINE), [])) == "signature_missing"


@pytest.mark.parametrize("value", [b"x", b"x" * 63, b"x" * 64, b"x" * 65, signer().sign("two\n", NOW).value, signer(2).sign(TEXT, NOW).value])
def test_a_known_key_whose_signature_fails_refuses_the_whole_note(value: bytes) -> None:
    bad = Signature(ORIGIN, LOG.verifier.key_id, value)
    other = signer(2, "other.example")
    assert refused(lambda: open_note(of(TEXT, other.sign(TEXT, NOW).line, bad.line), [LOG.verifier, other.verifier])) == "signature_invalid"
    assert refused(lambda: open_note(of(TEXT, LINE, bad.line), [LOG.verifier])) == "signature_invalid"


def test_r145_r144_keys_and_signatures_that_bind_nobody() -> None:
    for point in SMALL_ORDER:
        assert refused(lambda point=point: VerifierKey("a", point)) == "key_malformed"  # type: ignore[misc]
        assert refused(lambda point=point: VerifierKey("a", point, 4)) == "key_malformed"  # type: ignore[misc]
        weak = Signature(ORIGIN, LOG.verifier.key_id, point + b"\0" * 32)
        assert refused(lambda weak=weak: open_note(of(TEXT, weak.line), [LOG.verifier])) == "signature_invalid"  # type: ignore[misc]
    value = LOG.sign(TEXT, NOW).value
    order = 2**252 + 27742317777372353535851937790883648493
    larger = value[:32] + (int.from_bytes(value[32:], "little") + order).to_bytes(32, "little")
    assert refused(lambda: open_note(of(TEXT, Signature(ORIGIN, LOG.verifier.key_id, larger).line), [LOG.verifier])) == "signature_invalid"


@pytest.mark.parametrize("text", [
    "", "a", "a+b", "a+530d903a", FOO + " ", " " + FOO, FOO.replace("530d903a", "530D903A"), FOO.replace("530d903a", "530d903b"), FOO.replace("foo", "fop"),
    FOO.replace("+Ae", "+Af"), FOO.replace("+Ae", "+ae"), FOO + "=", FOO[:-1], FOO[:-1] + "l", "+" + FOO, FOO.replace("example.com/foo", ""), "a+530d903a+",
    FOO.replace("example", "exa mple"), "x" * 5_000, FOO.replace("k", "\ud800"), "a+530d903a+AA==", "PRIVATE+KEY+" + FOO, "é" * 128 + FOO,
])
def test_what_is_no_key_is_refused(text: str) -> None:
    assert refused(lambda: VerifierKey.parse(text)) == "key_malformed"


@pytest.mark.parametrize(("public", "kind"), [(b"", 1), (b"\2" * 31, 1), (b"\2" * 32, 0), (b"\2" * 32, 2), (b"\2" * 32, 5), (b"\2" * 32, 6),
                                               (b"\2" * 1311, 6), (b"\2" * 1313, 6), (b"\2" * 1312, 1), (b"\2" * 1312, 4), (b"\2" * 32, 255)])
def test_keys_of_other_kinds_and_lengths_are_refused(public: bytes, kind: int) -> None:
    assert refused(lambda: VerifierKey("a.example", public, kind)) == "key_malformed"


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u2028b", "a\x1fb", "é" * 128, "\ud800"])
def test_names_that_no_key_can_have(name: str) -> None:
    assert refused(lambda: NoteSigner(name, b"\1" * 32)) == "key_malformed"
    assert refused(lambda: VerifierKey(name, LOG.verifier.public)) == "key_malformed"


@pytest.mark.parametrize("kind", [1, 4, 6])
def test_keys_are_written_and_read_again(kind: int) -> None:
    made = signer(3, "säule.example/w", kind)
    assert VerifierKey.parse(made.verifier.text()) == made.verifier
    again = NoteSigner.parse(made.private_text())
    assert (again.verifier, again.private_text()) == (made.verifier, made.private_text())
    identifier = hashlib.sha256(made.name.encode() + b"\n" + bytes([kind]) + made.verifier.public).digest()[:4]
    assert made.verifier.text() == f"{made.name}+{identifier.hex()}+{base64.b64encode(bytes([kind]) + made.verifier.public).decode()}"


def test_a_secret_key_is_read_strictly_and_never_shown() -> None:
    text = LOG.private_text()
    secret = text.rsplit("+", 1)[1]
    for bad in ("", text[8:], text.replace("+KEY+", "+KEY+x"), text + "=", text[:-4], f"{text[:-8]}AAAAAAA=", text.replace(LOG.verifier.key_id.hex(), "00000000"),
                f"PRIVATE+KEY+{ORIGIN}+00000000+{base64.b64encode(bytes([9]) + bytes(32)).decode()}"):
        with pytest.raises(ProofError) as caught:
            NoteSigner.parse(bad)
        assert caught.value.code == "key_malformed"
        assert secret[4:20] not in str(caught.value)
    assert repr(bytes([1]) * 32)[2:20] not in repr(LOG)
    assert secret not in repr(LOG)
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="secret"):
            way(LOG)


def test_two_keys_under_one_id_are_refused_and_one_key_twice_is_one() -> None:
    other = signer(2).verifier
    object.__setattr__(other, "key_id", LOG.verifier.key_id)
    try:
        assert refused(lambda: by_name([LOG.verifier, other])) == "keys_unfit"
    finally:
        object.__setattr__(other, "key_id", VerifierKey(other.name, other.public).key_id)
    assert by_name([LOG.verifier, VerifierKey.parse(LOG.verifier.text())]) == {(ORIGIN, LOG.verifier.key_id): LOG.verifier}


@pytest.mark.parametrize("text", ["", "no line feed", "a\0\n", "a\r\n", "\ud800\n"])
def test_what_no_note_can_hold_is_not_signed(text: str) -> None:
    assert refused(lambda: sign_note(text, [LOG], NOW)) == "note_malformed"


def test_nobody_signs_no_note_and_a_cosigner_signs_checkpoints_only() -> None:
    assert refused(lambda: sign_note(TEXT, [], NOW)) == "note_malformed"
    assert refused(lambda: sign_note(TEXT, [witness()], NOW)) == "checkpoint_malformed"


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters=[chr(code) for code in range(32) if code != 10]), max_size=60).map(lambda text: text + "\n")
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "Cc"), exclude_characters="+\x85"), min_size=1, max_size=20).filter(
    lambda name: not any(sign.isspace() for sign in name))
SIGNATURES = st.builds(Signature, NAMES, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80))


@given(st.builds(Note, TEXTS, st.lists(SIGNATURES, min_size=1, max_size=5).map(tuple)))
def test_a_note_that_is_written_reads_as_the_same_note(made: Note) -> None:
    assert Note.parse(made.to_bytes()) == made


PIECES = st.sampled_from(["\n", "\n\n", "— ", "—", " ", "+", "a", ORIGIN, LINE, LINE[:-2], "=", "AAAAAAAA", "\r", "\t", "\x85", "0", "\ufeff"])


@given(st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=14).map(lambda parts: "".join(parts).encode())))
def test_any_bytes_are_refused_by_the_one_error_or_write_themselves_again(data: bytes) -> None:
    try:
        read = Note.parse(data)
    except ProofError as error:
        assert error.code == "note_malformed"  # noqa: PT017 - or it is read
    else:
        assert read.to_bytes() == data


@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(["+", "a", "530d903a", "AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", FOO, "PRIVATE+KEY+", "="]),
                                                max_size=6).map("".join)))
def test_any_text_is_a_key_that_writes_itself_again_or_is_refused(text: str) -> None:
    for read, written in ((VerifierKey.parse, VerifierKey.text), (NoteSigner.parse, NoteSigner.private_text)):
        try:
            key: Any = read(text)
        except ProofError as error:
            assert error.code == "key_malformed"  # noqa: PT017 - or it is read
        else:
            assert written(key) == text


def test_a_note_of_a_checkpoint_is_the_text_of_c2sp() -> None:
    assert note(0).decode().split("\n")[:4] == [ORIGIN, "0", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", ""]
