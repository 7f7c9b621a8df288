"""How many messages a second `layerlore export` writes and `layerlore import` stores, and what each needs of memory and CPU.

`python -m benchmarks.moving [--messages N]`: an export with so many messages is written, imported into a new SQLite file,
imported again, and exported again; the two exports must be equal.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.sample_text import SampleText

_THREAD = 500
_START = 1_700_000_000_000


def write_export(file: Path, messages: int) -> None:
    """Write an export of conversations of 500 messages."""
    text = SampleText(1)
    with file.open("w", encoding="utf-8") as out:
        head = {"record": "header", "format": "layerlore", "version": 1, "scopes": 1, "exported_at": _START}
        lines = [head, {"record": "scope", "agent": "default", "resource": "default"}]
        for number in range(messages):
            at, seq = _START + 1_000 * number, number % _THREAD + 1
            name = f"t{number // _THREAD:05}"
            if seq == 1:
                lines.append({"record": "thread", "thread": name, "uid": f"u{name}", "metadata": {}, "created_at": at, "updated_at": at})  # fmt: skip
            said = [{"type": "text", "text": text.text()}]
            role = "user" if seq % 2 else "assistant"
            lines.append({"record": "message", "thread": name, "seq": seq, "id": f"m{number}", "role": role, "parts": said, "created_at": at, "said_at": at})  # fmt: skip
            if seq == _THREAD or number == messages - 1:
                cursors = dict.fromkeys(("observed_seq", "buffered_seq", "buffered_chars", "entries_seq", "profile_seq", "session_seq"), 0)  # fmt: skip
                lines.append({"record": "thread_state", "thread": name, "next_seq": seq + 1, "next_event_seq": 1, "next_step_seq": 1, **cursors, "updated_at": at})  # fmt: skip
            out.writelines(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
            lines = []
        out.write('{"record":"end"}\n')


def run(what: str, messages: int, *arguments: str) -> None:
    """Run a command, and print what it took, its start included."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-m", "layerlore.server", *arguments], check=True, capture_output=True)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sys.stdout.write(
        f"{what:<14} {messages / seconds:>8,.0f} messages a second  {seconds:6.1f} s  {cpu:6.1f} s CPU  "
        f"{after.ru_maxrss // 1024} MB at most until here\n"
    )
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    messages = parser.parse_args().messages
    with tempfile.TemporaryDirectory() as folder:
        first, second, data = Path(folder) / "first.jsonl", Path(folder) / "second.jsonl", f"--data-dir={folder}/data"
        write_export(first, messages)
        run("import", messages, data, "import", str(first))
        run("import again", messages, data, "import", str(first))
        run("export", messages, data, "export", str(second))
        said = [[line for line in file.open("rb") if b'"record":"message"' in line] for file in (first, second)]
        assert said[0] == said[1], "what was imported is not what was exported"


if __name__ == "__main__":
    main()
