"""The rules of evidence, measured by the written cases of others: what they refuse and what they keep."""

from collections.abc import Sequence
from typing import Any

import pytest
from evidence_cases import EVIDENCE_CASES

from layerlore.memory.embedding.sentence_encoder import UseEmbedder
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.entries.claim import EvidenceRefused
from layerlore.memory.entries.evidence import EvidenceText, Label
from layerlore.memory.entries.proof import link_replies, list_compared, prove
from layerlore.memory.entries.word_meanings import compare_meanings

from .entry_memory import Memory

pytestmark = pytest.mark.anyio

REFUSED, KEPT = 100, 57
"""The rates that were reached, of 100 and of 60. The three that are not kept quote a tool's result, which proves nothing
whatever it says: it is nobody's word."""


@pytest.mark.parametrize("compared", ["words", "meanings"])
async def test_what_is_unproven_is_refused_and_what_is_proven_is_kept(memory: Memory, compared: str) -> None:
    service = EmbeddingService(UseEmbedder(), patience_ms=60_000) if compared == "meanings" else None
    object.__setattr__(memory.engine, "embedding", service)
    if service is not None:
        await service.embed(["load"])
    missed: dict[str, list[str]] = {"refuse": [], "keep": []}
    for case in EVIDENCE_CASES:
        refused = await _judge(memory, case)
        if (refused is None) != (case["verdict"] == "keep"):
            missed[case["verdict"]].append(f"{case['name']}: {refused.rule if refused else 'kept'} ({case['why']})")
    if service is not None:
        await service.close()
    print("\n".join(f"missed {verdict}: {each}" for verdict, names in missed.items() for each in names))
    assert 100 - len(missed["refuse"]) >= REFUSED, missed["refuse"]
    assert 60 - len(missed["keep"]) >= KEPT, missed["keep"]


async def _judge(memory: Memory, case: dict[str, Any]) -> EvidenceRefused | None:
    of_user = case["target"] == "profile"
    label: Label = "user_assertion" if of_user else case.get("source", "caller")
    said = _read(case["thread"], memory.now)
    found = prove(case["entry"], case["evidence"], label, said, of_user=of_user)
    if isinstance(found, EvidenceRefused) and found.mendable:
        words = list_compared(case["entry"], case["evidence"], label, said)
        meanings = await compare_meanings(memory.engine, words)
        found = prove(case["entry"], case["evidence"], label, said, meanings, of_user=of_user)
    return found if isinstance(found, EvidenceRefused) else None


def _read(thread: Sequence[dict[str, Any]], now: int) -> list[EvidenceText]:
    texts = [EvidenceText(at, 1, each["role"], each["content"], said_at=now) for at, each in enumerate(thread, 1)]
    return link_replies(texts)
