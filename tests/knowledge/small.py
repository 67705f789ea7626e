"""A language of five words, and questions in it, for tests that compare with plain decoding."""

from __future__ import annotations

from labkit.knowledge.facts import Fact
from labkit.knowledge.prompts import PromptForm

FORM = PromptForm(question="{question} d", answer=" {answer}", after=" e ", end="e", start="<bos> ")
"""`<bos> a b d c e b d`: the question "a b" answered "c", and the question "b"."""

FACTS = (
    Fact("r", "1", "a b", ("c",)),
    Fact("r", "2", "b", ("a c", "a")),
    Fact("r", "3", "b a a", ("b b",)),
    Fact("r", "4", "a b c", ("c", "b", "a b")),
    Fact("s", "5", "c c", ("d",)),
)
SHOTS = (Fact("r", "6", "c", ("b",)), Fact("r", "7", "a a a", ("c a",)))
