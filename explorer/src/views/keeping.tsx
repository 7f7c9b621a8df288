// Forgetting and erasing, taking the memory along, and who changed it.

import { useState } from "preact/hooks";
import { KNOWN, nameCounted } from "../names";
import { host } from "../begin";
import type { Memory } from "../connection/connection";
import { useAct, useAsked } from "../parts/asking";
import { Badge, Choice, Empty, Failure, Fold, Head, Loading, Question, TextField } from "../parts/pieces";
import { ThreadField } from "../parts/threads";
import { memory, say } from "../store";
import type { Entry, Message, MessagePage, Thread } from "../stored";
import { showCount, showMoment, showNumber } from "../text";
import { ForgetBox, Undoable } from "./forget_box";

export function Keeping() {
  const [changes, setChanges] = useState(0);
  const changed = () => setChanges((last) => last + 1);
  return (
    <div class="view">
      <Head title="Forget, erase, export" note="What is remembered is yours: take it along, or have it gone." />
      <ForgetBox onChanged={changed} />
      <Undoable round={changes} />
      <div class="columns">
        <Erase onErased={changed} />
        <Export />
      </div>
      <Journal key={changes} />
    </div>
  );
}

/** What can be seen, as lines of JSON: the profile, every note, and every message of a conversation or of all. */
function Export() {
  const from = memory.value as Memory;
  const [thread, setThread] = useState("");
  const [told, setTold] = useState("");
  const [busy, act] = useAct();
  const run = () =>
    act(async () => {
      const lines: string[] = [];
      const add = (type: string, value: object) => lines.push(JSON.stringify({ type, ...value }));
      if (!thread) {
        add("profile", await from.call<object>("get_working_memory", { scope: "resource", format: "json" }));
        for await (const entry of readEntries(from)) add("entry", entry);
      }
      for await (const one of readThreads(from, thread)) {
        add("thread", one);
        for await (const message of readMessages(from, one.thread_id)) add("message", { thread_id: one.thread_id, ...message });
        setTold(`${showCount(lines.length, "line")} read`);
      }
      await save(lines.join("\n") + "\n", thread ? "conversation.jsonl" : "memory.jsonl");
      setTold("");
      say(`${showCount(lines.length, "line")} saved.`);
    });
  return (
    <section class="card stack" aria-label="Export">
      <h2>Export</h2>
      <p class="note">
        Lines of JSON: profile, notes, conversations and their messages, without what was deleted. To move a memory to another
        server, <code>layerlore export</code> takes everything.
      </p>
      <ThreadField value={thread} all="Everything" onPick={setThread} />
      <div class="row">
        <button type="button" class="primary" disabled={busy} onClick={run}>
          Export
        </button>
        <span class="meta" role="status">
          {busy && (told || "Reading …")}
        </span>
      </div>
    </section>
  );
}

async function* readEntries(from: Memory): AsyncGenerator<Entry> {
  for (let cursor = ""; ; ) {
    const page = await from.readJson<{ entries: Entry[]; next_cursor?: string }>(
      `memory://entries${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`,
    );
    yield* page.entries;
    if (!page.next_cursor) return;
    cursor = page.next_cursor;
  }
}

async function* readThreads(from: Memory, thread: string): AsyncGenerator<Thread> {
  for (let cursor = ""; ; ) {
    const page = await from.call<{ threads: Thread[]; next_cursor?: string }>("list_threads", {
      ...(thread ? { thread_id: thread } : { limit: 100 }),
      ...(cursor ? { cursor } : {}),
    });
    yield* page.threads;
    if (!page.next_cursor) return;
    cursor = page.next_cursor;
  }
}

async function* readMessages(from: Memory, thread: string): AsyncGenerator<Message> {
  for (let offset = 0; ; ) {
    const page = await from.call<MessagePage>("get_messages", { format: "json", thread_id: thread, offset, limit: 200, detail: "high" });
    yield* page.messages;
    offset += page.messages.length;
    if (!page.messages.length || offset >= page.total) return;
  }
}

async function save(text: string, name: string): Promise<void> {
  if (host.value) {
    const resource = { uri: `file:///${name}`, mimeType: "application/jsonl", text };
    await host.value.request("ui/download-file", { contents: [{ type: "resource", resource }] });
    return;
  }
  const address = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

interface Erased {
  dry_run: boolean;
  rows: number;
  counts: { [table: string]: number };
  confirm?: string;
  confirm_before?: string;
  receipt: string;
}

const WORD = "erase";

function Erase({ onErased }: { onErased: () => void }) {
  const from = memory.value as Memory;
  const [thread, setThread] = useState("");
  const [preview, setPreview] = useState<Erased | null>(null);
  const [word, setWord] = useState("");
  const [done, setDone] = useState<Erased | null>(null);
  const [busy, act] = useAct();
  const what = thread ? `the conversation “${thread}”` : "everything remembered";
  const given = thread ? { thread_id: thread } : {};
  if (!from.has("erase_memory"))
    return (
      <section class="card stack" aria-label="Erase">
        <h2>Erase for good</h2>
        <p class="note">
          Erasing needs the right <code>admin</code>, which this key does not have. What you forget or delete elsewhere here is
          hidden at once, and erased for good later.
        </p>
      </section>
    );
  return (
    <section class="card stack" aria-label="Erase">
      <h2>Erase for good</h2>
      <p class="note">What is erased cannot be brought back. First you see how much it is.</p>
      <ThreadField value={thread} all="Everything" onPick={setThread} />
      <div>
        <button
          type="button"
          class="danger"
          disabled={busy}
          onClick={() =>
            act(async () => {
              setWord("");
              setDone(null);
              setPreview(await from.call<Erased>("erase_memory", { ...given, dry_run: true }));
            })
          }
        >
          Show what would be erased
        </button>
      </div>
      <p class="meta" role="status">
        {done && `Erased for good: ${describeErased(done.counts)}. Receipt ${done.receipt}`}
      </p>
      {preview && (
        <Question
          title={`Erase ${what}?`}
          yes="Erase for good"
          danger
          ready={!busy && word.trim().toLowerCase() === WORD}
          onYes={() =>
            act(async () => {
              setDone(await from.call<Erased>("erase_memory", { ...given, dry_run: false, confirm: preview.confirm }));
              setPreview(null);
              setThread("");
              onErased();
            })
          }
          onNo={() => setPreview(null)}
        >
          <ErasedTable counts={preview.counts} />
          <TextField label={`Write “${WORD}” to confirm`} value={word} onInput={setWord} />
        </Question>
      )}
    </section>
  );
}

const sum = (counts: number[]): number => counts.reduce((all, count) => all + count, 0);

/** What a person knows of, and all else that was made from it. */
function splitCounts(counts: Erased["counts"]): { known: [string, number][]; rest: [string, number][] } {
  const all = Object.entries(counts);
  const known = Object.keys(KNOWN).flatMap((table): [string, number][] => (counts[table] ? [[table, counts[table]]] : []));
  return { known, rest: all.filter(([table]) => !(table in KNOWN)) };
}

function describeErased(counts: Erased["counts"]): string {
  const { known, rest } = splitCounts(counts);
  const others = sum(rest.map(([, count]) => count));
  return [
    ...known.map(([table, count]) => `${nameCounted(table)}: ${showNumber(count)}`),
    ...(others ? [`records made from them: ${showNumber(others)}`] : []),
  ].join(", ") || "nothing was stored";
}

function ErasedTable({ counts }: { counts: Erased["counts"] }) {
  const { known, rest } = splitCounts(counts);
  if (!known.length && !rest.length) return <p>Nothing is stored there.</p>;
  const line = (name: string, count: number) => (
    <tr>
      <td>{name}</td>
      <td class="number">{showNumber(count)}</td>
    </tr>
  );
  return (
    <>
      <p>This would go, for good:</p>
      <table>
        <tbody>
          {known.map(([table, count]) => line(nameCounted(table), count))}
          {rest.length > 0 && line("records that the server made from them", sum(rest.map(([, count]) => count)))}
        </tbody>
      </table>
      {rest.length > 0 && (
        <Fold title="Which records these are">
          <table>
            <tbody>{rest.map(([table, count]) => line(nameCounted(table), count))}</tbody>
          </table>
        </Fold>
      )}
    </>
  );
}

interface JournalLine {
  at: string;
  agent: string;
  principal: string;
  client: string;
  tool: string;
  outcome: string;
  reason?: string;
  counts: { [what: string]: number };
}

interface JournalPage {
  lines: JournalLine[];
  next_cursor?: string;
}

function Journal() {
  const from = memory.value as Memory;
  const [whose, setWhose] = useState<"own" | "everybody">("own");
  const [older, setOlder] = useState<JournalPage>({ lines: [] });
  const [busy, act] = useAct();
  const offered = from.surelyHas("explore_journal");
  const given = { limit: 100, ...(whose === "everybody" ? { everybody: true } : {}) };
  const asked = useAsked(
    offered ? (at, signal) => at.call<JournalPage>("explore_journal", given, signal) : null,
    [whose, offered],
  );
  const lines = [...(asked.value?.lines ?? []), ...older.lines];
  const next = older.lines.length ? older.next_cursor : asked.value?.next_cursor;
  return (
    <section class="card stack" aria-label="Journal">
      <div class="card-head">
        <h2>Who changed this memory</h2>
        {from.has("erase_memory") && offered && (
          <Choice
            label="Whose"
            value={whose}
            choices={[
              { value: "own", title: "This memory" },
              { value: "everybody", title: "Everybody" },
            ]}
            onChange={(value) => {
              setOlder({ lines: [] });
              setWhose(value);
            }}
          />
        )}
      </div>
      {!offered && (
        <p class="note">
          On the server's machine, <code>layerlore journal</code> shows who changed this memory and when.
        </p>
      )}
      {asked.error && <Failure error={asked.error} again={asked.again} />}
      {offered && !asked.value && asked.loading && <Loading what="Reading the journal" />}
      {asked.value && !lines.length && <Empty title="Nothing was written yet" />}
      {lines.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Lines of the journal, newest first">
          <table>
            <thead>
              <tr>
                <th>When</th>
                <th>Who</th>
                <th>Did</th>
                <th>How it ended</th>
                <th>How much</th>
              </tr>
            </thead>
            <tbody>
              {lines.map((line) => (
                <tr>
                  <td>{showMoment(line.at)}</td>
                  <td>
                    {line.principal} {line.client && <span class="meta">by {line.client}</span>}
                  </td>
                  <td>{line.tool}</td>
                  <td>
                    <Badge tone={line.outcome === "done" ? "good" : "warn"}>{line.outcome}</Badge> {line.reason}
                  </td>
                  <td class="meta">
                    {Object.entries(line.counts)
                      .map(([what, count]) => `${nameCounted(what)}: ${showNumber(count)}`)
                      .join(", ")}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {next && (
        <button
          type="button"
          disabled={busy}
          onClick={() =>
            act(async () => {
              const page = await from.call<JournalPage>("explore_journal", { ...given, cursor: next });
              setOlder((last) => ({ ...page, lines: [...last.lines, ...page.lines] }));
            })
          }
        >
          Show older lines
        </button>
      )}
    </section>
  );
}
