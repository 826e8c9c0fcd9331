"""No generator: the best text as it is."""

from __future__ import annotations

import pytest

from rag_stdlib.errors import Failure
from rag_stdlib.proof.generators import make_generator


def test_the_first_text_that_says_anything_is_the_answer() -> None:
    generator = make_generator("none")
    assert generator.generate("who?", ["Owls hear well. Ravens hide food.", "Herons wait."]) == "Owls hear well. Ravens hide food."
    assert generator.generate("who?", ["\n- \n", "# Herons\n\nThey wait."]) == "# Herons\n\nThey wait."
    assert generator.generate("who?", ["- #", ""]) == generator.generate("who?", []) == ""


def test_it_is_named_and_told_from_the_others() -> None:
    identity = make_generator("none").identity
    assert (identity.name, identity.model, len(identity.digest)) == ("none", None, 64)
    assert identity == make_generator("none").identity
    assert identity.digest != make_generator().identity.digest


def test_what_is_no_question_is_refused() -> None:
    with pytest.raises(Failure):
        make_generator("none").generate("\ud800", ["Owls hear well."])
