"""Published sets, turned into the shape that README.md shows.

The shapes are those of the published files: LongMemEval (JSON), HaluMem (JSON lines), MemoryAgentBench (its rows as JSON
lines), PersonaMem (``questions_*.csv`` and ``shared_contexts_*.jsonl``).
"""

import ast
import csv
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.answers.models import ALTERNATIVE
from benchmarks.conversations import Json

# A chunk of a document is a message; about 1,000 tokens.
_CHUNK_CHARACTERS = 4_000
# Ends the name of a question whose answer LongMemEval's history does not hold.
_ABSTENTION = "_abs"


def convert(name: str, files: Sequence[Path], out: Path) -> None:
    """Write the published files of a set as one file of conversations."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(CONVERTERS[name](files), ensure_ascii=False), encoding="utf-8")


def longmemeval(files: Sequence[Path]) -> list[Json]:
    """One conversation for each question. Turns with ``has_answer`` are the evidence."""
    found = []
    for raw in json.loads(files[0].read_text(encoding="utf-8")):
        sessions = []
        evidence: list[str] = []
        histories = zip(raw["haystack_session_ids"], raw["haystack_dates"], raw["haystack_sessions"], strict=True)
        # The same session id may occur twice in one history, so a session's number begins the ids of its turns.
        for number, (session_id, date, said) in enumerate(histories):
            turns = _turns(f"{number}", said)
            evidence += [turn["id"] for turn, each in zip(turns, said, strict=True) if each.get("has_answer")]
            sessions.append(_session(f"{number}-{session_id}", turns, _iso(date, "%Y/%m/%d (%a) %H:%M")))
        abstains = str(raw["question_id"]).endswith(_ABSTENTION)
        category = "abstention" if abstains else raw["question_type"]
        question = _question(raw["question"], category, str(raw["answer"]), raw.get("question_date", ""))
        found.append(_conversation(raw["question_id"], sessions, [{**question, "evidence": evidence}]))
    return found


def halumem(files: Sequence[Path]) -> list[Json]:
    """One conversation for each user. Its evidence is notes and not turns, so that the questions have none here. They are
    all asked at the end, while the set asks them after the session that they stand in: its end is their date."""
    found = []
    for raw in _rows(files[0]):
        sessions = []
        questions: list[Json] = []
        for number, session in enumerate(raw["sessions"]):
            turns = _turns(f"{number}", session["dialogue"])
            for turn, said in zip(turns, session["dialogue"], strict=True):
                turn["date"] = _iso(said.get("timestamp", ""), "%b %d, %Y, %H:%M:%S")
            sessions.append(_session(f"{number}", turns, _iso(session.get("start_time", ""), "%b %d, %Y, %H:%M:%S")))
            asked_at = session.get("end_time") or ""
            for asked in session.get("questions", []):
                questions.append(_question(asked["question"], asked["question_type"], asked["answer"], asked_at))
        found.append(_conversation(raw["uuid"], sessions, questions))
    return found


def memory_agent_bench(files: Sequence[Path]) -> list[Json]:
    """One conversation for each row: its context in chunks. A question's answers are alternatives."""
    found = []
    for number, raw in enumerate(_rows(files[0])):
        metadata = raw.get("metadata") or {}
        source = metadata.get("source") or "unnamed"
        types = metadata.get("question_types") or []
        dates = metadata.get("question_dates") or []
        names = metadata.get("question_ids") or []
        said = [{"role": "user", "content": chunk} for chunk in _chunks(raw["context"])]
        questions = []
        for at, (text, answers) in enumerate(zip(raw["questions"], raw["answers"], strict=True)):
            alternatives = [answers] if isinstance(answers, str) else answers
            category = types[at] if at < len(types) else source
            # The rows that come from LongMemEval have its names and dates.
            if at < len(names) and names[at].endswith(_ABSTENTION):
                category = "abstention"
            date = dates[at] if at < len(dates) else ""
            questions.append(_question(text, category, ALTERNATIVE.join(map(str, alternatives)), date))
        found.append(_conversation(f"{source}-{number}", [_session("0", _turns("0", said), "")], questions))
    return found


def personamem(files: Sequence[Path]) -> list[Json]:
    """One conversation for each shared context and length of it that is asked about. The options stand in the question;
    the persona's system message is left out, since it describes what is to be inferred."""
    table = next(path for path in files if path.suffix == ".csv")
    contexts: dict[str, list[Json]] = {}
    for row in _rows(next(path for path in files if path.suffix == ".jsonl")):
        contexts |= row
    found: dict[tuple[str, int], Json] = {}
    with table.open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            key = (row["shared_context_id"], int(row["end_index_in_shared_context"]))
            if key not in found:
                said = [each for each in contexts[key[0]][: key[1]] if each["role"] != "system"]
                found[key] = _conversation(f"{key[0]}-{key[1]}", [_session("0", _turns("0", said), "")], [])
            options = ast.literal_eval(row["all_options"])
            right = next(option for option in options if option.startswith(row["correct_answer"]))
            text = "\n".join([row["user_question_or_message"], *options])
            found[key]["questions"].append(_question(text, row["question_type"], right))
    return list(found.values())


CONVERTERS: dict[str, Callable[[Sequence[Path]], list[Json]]] = {
    "longmemeval": longmemeval,
    "halumem": halumem,
    "memoryagentbench": memory_agent_bench,
    "personamem": personamem,
}


def _rows(path: Path) -> list[Json]:
    # Texts may hold line separators that splitlines would break at.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _conversation(name: object, sessions: list[Json], questions: list[Json]) -> Json:
    return {"id": str(name), "speakers": ["user", "assistant"], "sessions": sessions, "questions": questions}


def _session(name: str, turns: list[Json], date: str) -> Json:
    # The server stores no message without text.
    return {"id": name, "date": date, "turns": [turn for turn in turns if turn["text"].strip()]}


def _turns(session: str, said: Sequence[Json]) -> list[Json]:
    turns = []
    for number, each in enumerate(said):
        role = each["role"]
        turns.append({"id": f"{session}:{number}", "speaker": role, "role": role, "text": each["content"]})
    return turns


def _question(text: str, category: str, answer: str, date: str = "") -> Json:
    return {"question": text, "category": category, "answer": answer, "evidence": [], "date": date}


def _chunks(text: str) -> list[str]:
    """Whole lines as long as they fit; a longer line is cut."""
    chunks = [""]
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), _CHUNK_CHARACTERS):
            piece = line[at : at + _CHUNK_CHARACTERS]
            if len(chunks[-1]) + len(piece) > _CHUNK_CHARACTERS:
                chunks.append("")
            chunks[-1] += piece
    return chunks


def _iso(text: str, form: str) -> str:
    return datetime.strptime(text, form).replace(tzinfo=UTC).isoformat() if text else ""
