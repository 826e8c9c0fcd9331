"""What the mesh's library reports, in our words."""

from __future__ import annotations

import pytest

from rag_stdlib.mesh.errors import (
    CallError,
    CallTimeout,
    InvalidCall,
    NoProvider,
    NotConfidential,
    PayloadRefused,
    ProviderError,
    RelayError,
    ReplyRefused,
    ServeRefused,
    TransportClosed,
)
from rag_stdlib.mesh.macula_errors import GONE, MeshFailure, NotGranted, not_confidential, serve_refused, translated

pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")

STATION_ID = "00" + "11" * 31


def test_errors_of_the_library_have_their_place_in_ours() -> None:
    import macula_py as m

    cases: list[tuple[Exception, type[CallError], str]] = [
        (m.MaculaTimeoutError("macula-py: late"), CallTimeout, "timeout"), (TimeoutError(), CallTimeout, "timeout"),
        (m.ProviderError("handler_error", "store_opening"), ProviderError, "store_opening"),
        (m.ProviderError("handler_error", "{dimension_mismatch,384,768}"), ProviderError, "dimension_mismatch"),
        (m.ProviderError("caller_quota", ""), ProviderError, "caller_quota"), (m.ProviderError(GONE, ""), RelayError, GONE),
        (m.RelayError("overloaded"), RelayError, "overloaded"), (m.NoProviderError("macula-py: none"), NoProvider, "no_provider"),
        (m.ClosedError("macula-py: closed"), TransportClosed, "closed"), (m.InvalidArgumentError("macula-py: an id"), InvalidCall, "invalid_call"),
        (m.ConfidentialityError("no_kem_key", None, None, "no key"), NotConfidential, "no_kem_key"),
        (m.ConfidentialityError("a_new_reason", None, None, "in its own words"), NotConfidential, "a_new_reason"),
        (m.RefusedError("macula-py: refused", "too_many_realms", "subscribe", "00"), MeshFailure, "too_many_realms"),
        (m.MaculaError("macula-py: pool: no station link is up"), MeshFailure, "failed"),
        (m.MaculaError("macula-py: frame: lists and maps at 0 nest more than 63 levels"), PayloadRefused, "payload_refused"),
        (m.MaculaError("macula-py: stationlink: frame longer than the cap in force: 16782728 bytes"), PayloadRefused, "payload_too_large"),
        (ValueError("Only base64 data is allowed"), ReplyRefused, "malformed_reply"),
    ]
    for error, kind, name in cases:
        found = translated(error, "acme/x", None, 5.0)
        assert (type(found), found.name) == (kind, name)
        assert "macula-py" not in str(found)


def test_a_grant_that_is_not_there_is_told_from_other_refusals() -> None:
    import macula_py as m

    assert type(serve_refused(m.NotFoundError('macula-py: the org directory of "acme": no record'), "acme/x", STATION_ID)) is NotGranted
    assert type(serve_refused(m.RefusedError("macula-py: no", "not_authorized", "advertise", "00"), "acme/x", STATION_ID)) is NotGranted
    assert type(serve_refused(m.RefusedError("macula-py: no", "advertiser_quota", "advertise", "00"), "acme/x", STATION_ID)) is ServeRefused
    assert str(serve_refused(m.MaculaError("macula-py: odd"), "acme/x", STATION_ID)) == "acme/x cannot be served here: odd"


def test_what_cannot_be_kept_between_two_is_told_in_words() -> None:
    import macula_py as m

    known = not_confidential(m.ConfidentialityError("reply_not_opened", None, None, "stationlink: confidentiality: reply_not_opened"))
    assert str(known) == "reply_not_opened: the sealed reply cannot be opened"
    assert str(not_confidential(m.ConfidentialityError("new", None, None, "in its own words"))) == "new: in its own words"
