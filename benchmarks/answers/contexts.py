"""The contexts that are read: of the server's tools, of BM25 lines in the same room, and the gold evidence alone."""

import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import absent
from benchmarks.answers.cases import FALSE_PREMISE, Case, gold_evidence, gold_messages, kind_of, with_evidence
from benchmarks.asking import load, vectors_complete
from benchmarks.baselines import dated_line
from benchmarks.conversations import Conversation, Question, drawn_questions, read_set
from benchmarks.embedders import EMBEDDER_SETTING
from benchmarks.hosting import CONTEXT, RECALL, RECALL_TOKENS
from benchmarks.plain_lines import PlainLines
from benchmarks.recall import LONGEST_TEXT_BYTES
from benchmarks.servers import Connection, in_process, ours
from layerlore.memory.parts.tokens import TokenCounter, load_counter

GOLD = "gold evidence"
BM25 = "BM25 lines"


@dataclass(frozen=True, slots=True)
class Choice:
    """What is asked: the rooms of a context in tokens, how many conversations of a set, questions of a conversation, and
    questions of other conversations (None: all); the categories of false premises, and the embedder."""

    rooms: Sequence[int]
    conversations: int | None
    questions: int | None
    absent: int
    false_premise: Sequence[str]
    embedder: str


async def collect(files: Iterable[Path], choice: Choice) -> list[Case]:
    """A case for each question and each way of showing."""
    counter = load_counter()
    cases: list[Case] = []
    for path in files:
        conversations = read_set(path, every_question=True)
        foreign = absent.drawn(conversations, choice.false_premise, most=choice.absent, stores=choice.conversations)
        for conversation in conversations[: choice.conversations]:
            questions = drawn_questions(conversation.questions, choice.questions)
            unsaid = [Question(text, FALSE_PREMISE, frozenset()) for text in foreign.get(conversation.id, [])]
            asked = replace(conversation, questions=[*questions, *unsaid])
            cases += await _shown(path.stem, asked, choice, counter)
            print(f"{path.stem}: {conversation.id} is shown", file=sys.stderr, flush=True)
    return cases


async def _shown(name: str, conversation: Conversation, choice: Choice, counter: TokenCounter) -> list[Case]:
    roles = {message["id"]: message["role"] for _, thread in conversation.threads for message in thread}
    categories = {*choice.false_premise, FALSE_PREMISE}
    lines = PlainLines(conversation, counter)
    cases: list[Case] = []
    with tempfile.TemporaryDirectory(prefix="layerlore-answers-") as folder:
        launch = ours(
            Path(folder),
            LIMITS__MESSAGE_TEXT_BYTES=str(LONGEST_TEXT_BYTES),
            **{EMBEDDER_SETTING: choice.embedder},
        )
        async with in_process(launch) as connection:
            await load(connection, conversation.threads)
            await vectors_complete(connection)
            for number, question in enumerate(conversation.questions):
                kind = kind_of(question, roles, categories)
                gold = gold_messages(question, conversation)
                evidence = gold_evidence(question, gold)
                contexts = await _of_server(connection, question, number, choice.rooms)
                contexts |= _of_lines(lines, question, choice.rooms)
                # A question of another conversation has no gold lines, and neither have some sets.
                if evidence or kind == FALSE_PREMISE:
                    contexts[GOLD] = "\n".join(map(dated_line, gold))
                for shown, context in contexts.items():
                    case = Case(
                        set=name,
                        conversation=conversation.id,
                        question=question.text,
                        kind=kind,
                        answer="" if kind == FALSE_PREMISE else question.answer,
                        shown=shown,
                        context=context,
                        tokens=counter.text(context),
                        asked_at=question.asked_at,
                    )
                    cases.append(with_evidence(case, evidence))
    lines.close()
    return cases


async def _of_server(connection: Connection, question: Question, number: int, rooms: Sequence[int]) -> dict[str, str]:
    contexts = {RECALL: str(await connection.call(RECALL, query=question.text))}
    for room in rooms:
        # A new thread, as a host begins one: the context then holds only what is recalled.
        thread = f"asked/{number}"
        answer = await connection.call(CONTEXT, thread_id=thread, query=question.text, max_tokens=room)
        contexts[f"{CONTEXT} {room:,}"] = str(answer)
    return contexts


def _of_lines(lines: PlainLines, question: Question, rooms: Sequence[int]) -> dict[str, str]:
    every = sorted({RECALL_TOKENS, *rooms})
    texts = lines.best(question.text, every)
    return {f"{BM25} {room:,}": text for room, text in zip(every, texts, strict=True)}
