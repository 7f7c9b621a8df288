"""How often the search for near vectors finds what an exact one finds: ``python -m benchmarks.nearest FILE...``, see
README.md."""

import argparse
import hashlib
import random
import re
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines import embedded
from benchmarks.conversations import Conversation, read_set
from benchmarks.embedders import EMBEDDERS, chosen
from benchmarks.filling import AGENT, Filled, Store, opened
from benchmarks.metrics import mean, percentile
from benchmarks.tables import figure, table, verdict, write_json
from layerlore.memory.embedding.port import Embedder
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index import vectors

CONTRACT = 0.99
DEPTH = 10
# How many of the nearest codes are compared as floats: what recall takes.
RESCORED = RecallRules().rescored
# A little less than a chunk has, so that it is stored as one with its day and speaker.
CHUNK_CHARS = 700
WINDOWS = (1, 2, 3, 5)
_SHORTEST = 16
# Equally near texts are equally good; the floats that are compared are rounded to 16 bits, which moves a cosine by 0.00001.
_TIE = 1e-4
_SENTENCE_END = re.compile(r"(?<=[.!?。！？\n])\s+")
HEADER = ("database", "chunks", "questions", "recall@10", "p50 ms", "p95 ms", "expected", "verdict")


@dataclass(frozen=True, slots=True)
class Material:
    """Texts and questions with their vectors, [n, dimension] each, of unit length."""

    texts: list[str]
    text_vectors: NDArray[np.float32]
    question_vectors: NDArray[np.float32]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    report = anyio.run(_measure, options)
    write_json(options.json, report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nearest", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="conversation sets: the chunks' text")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000], help="chunks in scope")
    parser.add_argument("--questions", type=int, default=200, help="questions of the sets (default: 200)")
    parser.add_argument("--database", default="", help="postgresql://...: measured beside a new SQLite file")
    parser.add_argument("--embedder", default="use", help=f"{EMBEDDERS} (default: use)")
    parser.add_argument("--kept", type=Path, help="a file (.npz) that keeps the vectors for the next run")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


async def _measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    embedder = chosen(options.embedder)
    if embedder is None:
        raise SystemExit("nearest: without an embedder there is nothing near")
    material = _material(options, embedder)
    found: list[dict[str, Any]] = []
    for size in options.sizes:
        if size > len(material.texts):
            print(f"The files give {len(material.texts):,} chunks: {size:,} are not measured.")
            continue
        for database in dict.fromkeys(["", options.database]):
            with tempfile.TemporaryDirectory(prefix="layerlore-nearest-") as folder:
                async with opened(Path(folder), database, embedder) as store:
                    found.append(await _compared(store, material, size, embedder.name))
    print(_shown(found))
    return found


def _material(options: argparse.Namespace, embedder: Embedder) -> Material:
    conversations = [conversation for path in options.files for conversation in read_set(path)]
    texts = sorted({text for conversation in conversations for text in chunks(conversation)})
    random.Random(1).shuffle(texts)
    del texts[max(options.sizes) :]
    questions = list(dict.fromkeys(question.text for each in conversations for question in each.questions))
    random.Random(2).shuffle(questions)
    del questions[options.questions :]
    told = f"{len(texts):,} texts and {len(questions):,} questions"
    mark = hashlib.sha256("\0".join([embedder.name, *texts, *questions]).encode()).hexdigest()
    if options.kept and options.kept.exists():
        kept = np.load(options.kept)
        if str(kept["mark"]) == mark:
            print(f"{told}: vectors as kept in {options.kept}", flush=True)
            return Material(texts, kept["texts"], kept["questions"])
    began = time.perf_counter()
    material = Material(texts, embedded(embedder, texts), embedded(embedder, questions))
    print(f"{told} embedded in {time.perf_counter() - began:.0f} s", flush=True)
    if options.kept:
        np.savez(options.kept, mark=mark, texts=material.text_vectors, questions=material.question_vectors)
    return material


def chunks(conversation: Conversation) -> Iterator[str]:
    """Runs of one, two, three and five sentences of each message, at most a chunk long, as the server embeds them."""
    for _, messages in conversation.threads:
        for message in messages:
            sentences = [text for text in _SENTENCE_END.split(message["content"]) if len(text) >= _SHORTEST]
            for window in WINDOWS:
                for at in range(max(0, len(sentences) - window + 1)):
                    yield " ".join(sentences[at : at + window])[:CHUNK_CHARS]


async def _compared(store: Store, material: Material, size: int, model: str) -> dict[str, Any]:
    """The store's answers beside those of a scan of all floats."""
    resource = f"nearest-{uuid.uuid4().hex[:8]}"
    pairs = zip(material.texts[:size], material.text_vectors[:size], strict=True)
    await store.fill(resource, "chunks", [Filled({"role": "user", "content": text}, each) for text, each in pairs])
    scope = Scope(LOCAL_TENANT, AGENT, resource)
    exact = material.text_vectors[:size] @ material.question_vectors.T
    shares, seconds = [], []
    for number, question in enumerate(material.question_vectors):
        began = time.perf_counter()
        found = await store.engine.database.read(_nearest, scope, model, question)
        seconds.append(time.perf_counter() - began)
        shares.append(share_found(found, exact[:, number]))
    return {
        "database": store.engine.database.backend.name,
        "chunks": size,
        "questions": len(shares),
        f"recall@{DEPTH}": mean(shares),
        "p50_ms": percentile(seconds, 0.5) * 1000,
        "p95_ms": percentile(seconds, 0.95) * 1000,
        "holds": mean(shares) >= CONTRACT,
    }


async def _nearest(tx: Tx, scope: Scope, model: str, question: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cosines of the nearest, best first, found as recall finds them: by their codes, then by their floats."""
    code = np.packbits(question > 0).tobytes()
    row_ids = await vectors.nearest(tx, scope, model, code, most=RESCORED)
    _, floats = await vectors.of_rows(tx, scope, model, row_ids)
    return np.sort(floats @ question)[::-1][:DEPTH]


def share_found(found: NDArray[np.float32], exact: NDArray[np.float32]) -> float:
    """The share of the ten highest of all cosines that is among those found; equal cosines are as good."""
    depth = min(DEPTH, len(exact))
    least = np.sort(exact)[-depth]
    return min(int(np.sum(found >= least - _TIE)), depth) / depth


def _shown(found: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            each["database"],
            f"{each['chunks']:,}",
            f"{each['questions']:,}",
            figure(each[f"recall@{DEPTH}"], 4),
            figure(each["p50_ms"]),
            figure(each["p95_ms"]),
            f">= {CONTRACT}",
            verdict(each["holds"]),
        ]
        for each in found
    ]
    return f"\n{table(HEADER, rows)}"


if __name__ == "__main__":
    main()
