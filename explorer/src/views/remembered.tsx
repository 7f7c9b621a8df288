// What is remembered about a person: the profile and every entry, why each is there, and ways to mend it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { nameEntryKind } from "../names";
import { type Memory, undo } from "../connection/connection";
import { useAct, useAsked, useWatched } from "../parts/asking";
import { Badge, Choice, Empty, Failure, Fold, Head, Loading, Marked, Question, TextField } from "../parts/pieces";
import { VirtualList } from "../parts/virtual_list";
import { go, memory, say, subject, writeRoute } from "../store";
import { type Entry, type EntrySource, type Message, textOfMessage } from "../stored";
import { holdsAll, markQuote, markWords, showCount, showDay, showMoment, wordsOf } from "../text";

const MOST_PAGES = 200;

const TRUST: { [trust: string]: { text: string; tone: string; why: string } } = {
  user: { text: "your words", tone: "user", why: "It rests on words that the user said." },
  assistant: { text: "assistant", tone: "plain", why: "It rests on what the assistant said or found." },
  caller: { text: "noted by a program", tone: "warn", why: "A program kept it without the user's words." },
  shared: { text: "shared by others", tone: "warn", why: "A file of the project brought it. You did not say it." },
  tool: { text: "a tool's words", tone: "warn", why: "It rests on what a tool returned." },
};

export const LABELS: { [label: string]: string } = {
  user_assertion: "the user said",
  user_accepted_assistant_proposal: "the user accepted",
  verified_assistant_finding: "the assistant found",
  caller: "noted",
};

interface Page {
  entries: Entry[];
  next_cursor?: string;
  left_out?: number;
}

interface Profile {
  content: string | object;
  version: number;
  changed_at?: string;
  changed_by?: string;
}

async function readAll(from: Memory, signal: AbortSignal, told: (entries: Entry[]) => void): Promise<Entry[]> {
  const all: Entry[] = [];
  let cursor = "";
  for (let page = 0; page < MOST_PAGES; page++) {
    const read = await from.readJson<Page>(`memory://entries${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`, signal);
    all.push(...read.entries);
    if (!read.next_cursor) break;
    cursor = read.next_cursor;
    told([...all]);
  }
  return all;
}

const readWrong = (from: Memory, signal: AbortSignal): Promise<Page> =>
  from.call<Page>("explore_entries", { wrong: true }, signal);

const pinnedFirst = (all: Entry[]): Entry[] => [...all.filter((each) => each.pinned), ...all.filter((each) => !each.pinned)];

export function Remembered() {
  const about = subject.value.resource;
  const [query, setQuery] = useState("");
  const [listed, setListed] = useState("standing");
  const [early, setEarly] = useState<Entry[]>([]);
  const asked = useAsked((from, signal) => readAll(from, signal, setEarly), []);
  const profile = useAsked(
    (from, signal) => from.call<Profile>("get_working_memory", { scope: "resource", format: "json" }, signal),
    [],
  );
  const canMark = memory.value?.surelyHas("mark_entry") ?? false;
  const wrong = useAsked(canMark ? readWrong : null, [canMark]);
  useWatched(["memory://entries", "memory://profile"], () => {
    asked.again();
    wrong.again();
    profile.again();
  });
  const marked = wrong.value?.entries ?? [];
  const showsWrong = listed === "wrong" && marked.length > 0;
  useEffect(() => {
    if (!marked.length) setListed("standing");
  }, [marked.length]);
  const standing = asked.value ?? early;
  const all = useMemo(() => (showsWrong ? marked : pinnedFirst(standing)), [showsWrong, marked, standing]);
  const words = useMemo(() => wordsOf(query), [query]);
  const found = useMemo(
    () => (words.length ? all.filter((entry) => holdsAll(searched(entry), words)) : all),
    [all, words],
  );
  const note = asked.loading && !standing.length ? "" : showCount(standing.length, "note");
  const changed = () => {
    asked.again();
    wrong.again();
  };
  const remove = (id: string) => {
    asked.change((last) => last.filter((entry) => entry.id !== id));
    wrong.again();
  };
  const lines = profileLines(profile.value, words);
  // The profile stands before what is remembered, and not before what is not.
  const above = showsWrong ? 0 : 1;
  const rows = found.length + above;
  return (
    <div class="view full">
      <Head title={about ? `What is remembered about ${about}` : "What I remember about you"} note={note}>
        <TextField
          search
          hidden
          label="Search what is remembered"
          placeholder="Search as you type"
          value={query}
          onInput={setQuery}
        />
        {memory.value?.has("forget") && (
          <button type="button" onClick={() => go({ view: "keeping", query: query.trim() ? { about: query.trim() } : {} })}>
            Forget everything about {query.trim() ? `“${cut(query.trim())}”` : "…"}
          </button>
        )}
        {marked.length > 0 && (
          <Choice
            label="Which notes"
            value={listed}
            choices={[
              { value: "standing", title: "Remembered" },
              { value: "wrong", title: `Marked as wrong (${marked.length + (wrong.value?.left_out ?? 0)})` },
            ]}
            onChange={setListed}
          />
        )}
      </Head>
      {asked.error && <Failure error={asked.error} again={asked.again} />}
      {asked.loading && !all.length && <Loading what="Reading what is remembered" />}
      {(asked.value || all.length > 0) && (
        <VirtualList
          count={rows}
          estimate={150}
          label={showsWrong ? "What is marked as wrong, marked last first" : "What is remembered: pinned first, then the newest"}
          listKey={`${listed} ${query}`}
          row={(index) =>
            index < above ? (
              <ProfileCard profile={profile.value} lines={lines} words={words} error={profile.error} />
            ) : index < rows ? (
              <EntryCard
                key={found[index - above]?.id}
                entry={found[index - above] as Entry}
                words={words}
                onGone={remove}
                onChanged={changed}
              />
            ) : null
          }
        />
      )}
      {asked.value && found.length === 0 && (
        <Empty title={all.length ? "No note has these words" : "No notes are kept yet"}>
          {all.length ? (
            <button type="button" class="link" onClick={() => go({ view: "recall", query: { q: query } })}>
              Search everything that was said, by meaning
            </button>
          ) : (
            <p>
              Talk with an agent that uses this memory, or ask it to remember something. What it notes appears here, with
              the words that it rests on.
            </p>
          )}
        </Empty>
      )}
    </div>
  );
}

const cut = (text: string): string => (text.length > 24 ? `${text.slice(0, 23)}…` : text);

const searched = (entry: Entry): string =>
  [entry.content, entry.kind ?? "", ...entry.sources.map((source) => source.quote ?? "")].join("\n");

function profileLines(profile: Profile | undefined, words: string[]): string[] {
  if (!profile) return [];
  const text = typeof profile.content === "string" ? profile.content : JSON.stringify(profile.content, null, 2);
  const lines = text.split("\n").filter((line) => line.trim());
  return words.length ? lines.filter((line) => holdsAll(line, words)) : lines;
}

interface ProfileProps {
  profile: Profile | undefined;
  lines: string[];
  words: string[];
  error: string;
}

const LINES_SHOWN = 10;

function ProfileCard({ profile, lines, words, error }: ProfileProps) {
  const [whole, setWhole] = useState(false);
  if (error) return <Failure error={error} />;
  if (!profile) return <Loading what="Reading the profile" />;
  if (!lines.length) return <p class="note">{words.length ? "The profile has none of these words." : "The profile is empty."}</p>;
  return (
    <section class="card" aria-label="Profile">
      <div class="card-head">
        <h2>Profile</h2>
        <span class="meta">
          version {profile.version}
          {profile.changed_at && ` · ${showMoment(profile.changed_at)}`}
          {profile.changed_by && ` · by ${profile.changed_by}`}
        </span>
      </div>
      <div class="text">
        {(whole ? lines : lines.slice(0, LINES_SHOWN)).map((line) => (
          <div>
            <Marked pieces={markWords(line, words)} />
          </div>
        ))}
      </div>
      {lines.length > LINES_SHOWN && (
        <button type="button" class="link" aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {whole ? "Show less" : `Show all ${lines.length} lines`}
        </button>
      )}{" "}
      <a href={writeRoute({ view: "documents" })} onClick={(event) => (event.preventDefault(), go({ view: "documents" }))}>
        Versions and changes
      </a>
    </section>
  );
}

interface EntryProps {
  entry: Entry;
  words: string[];
  onGone: (id: string) => void;
  onChanged: () => void;
}

function EntryCard({ entry, words, onGone, onChanged }: EntryProps) {
  const [asking, setAsking] = useState<"" | "correct">("");
  const [busy, act] = useAct();
  const from = memory.value as Memory;
  const trust = TRUST[entry.trust] ?? { text: entry.trust, tone: "plain", why: "" };
  const forget = (said: string) =>
    act(async () => {
      const forgotten = await from.call<string>("forget", { ids: [entry.id] });
      onGone(entry.id);
      say(said, {
        undo: async () => {
          await undo(from, forgotten);
          onChanged();
        },
      });
    });
  const mark = (marks: { pinned?: boolean; wrong?: boolean; accepted?: boolean }, said: string) =>
    act(async () => {
      const answer = await from.call<{ undo?: string }>("mark_entry", { entry_id: entry.id, ...marks });
      onChanged();
      if (!answer.undo) return say(said);
      say(said, {
        undo: async () => {
          await undo(from, answer);
          onChanged();
        },
      });
    });
  const canMark = from.surelyHas("mark_entry");
  return (
    <article class="card" aria-label={entry.content.slice(0, 80)}>
      <p class="entry-text">
        <Marked pieces={markWords(entry.content, words)} />
      </p>
      <div class="row meta">
        {entry.pinned && (
          <Badge tone="good" title="Every conversation is shown it, whatever it is about.">
            pinned
          </Badge>
        )}
        {entry.unproven && (
          <Badge tone="warn" title="Names and numbers that no quotation of it contains.">
            not in the quote: {entry.unproven.join(", ")}
          </Badge>
        )}
        {entry.wrong && (
          <Badge tone="warn" title="No conversation is shown it, and only you can say it again.">
            marked as wrong
          </Badge>
        )}
        {entry.kind && <Badge tone="accent">{nameEntryKind(entry.kind)}</Badge>}
        <Badge tone={trust.tone} title={trust.why}>
          {trust.text}
        </Badge>
        {entry.contradicted_by && (
          <Badge tone="warn" title="A newer note says otherwise.">
            contradicted by a newer note
          </Badge>
        )}
        <span title={`kept ${showMoment(entry.created_at)}`}>said {showDay(entry.said_at)}</span>
        {entry.by && <span>kept by {entry.by}</span>}
      </div>
      {entry.sources.map((source) => (
        <SourceLine source={source} words={words} />
      ))}
      {entry.superseded && (
        <Fold title={`Took the place of ${showCount(entry.superseded.length, "earlier note")}`}>
          {entry.superseded.map((old) => (
            <p>
              <span class="gone">{old.content}</span> <span class="meta">kept {showDay(old.created_at)}</span>
            </p>
          ))}
        </Fold>
      )}
      {entry.wrong ? (
        <div class="acts">
          <button type="button" disabled={busy} onClick={() => mark({ wrong: false }, "Marked as right.")}>
            It is right after all
          </button>
        </div>
      ) : (
        <div class="acts">
          {canMark && (
            <button
              type="button"
              disabled={busy}
              onClick={() => mark({ pinned: !entry.pinned }, entry.pinned ? "Unpinned." : "Pinned.")}
            >
              {entry.pinned ? "Unpin" : "Pin"}
            </button>
          )}
          {canMark && entry.trust === "shared" && (
            <button type="button" disabled={busy} onClick={() => mark({ accepted: true }, "Accepted.")}>
              Accept
            </button>
          )}
          <button type="button" disabled={busy} onClick={() => setAsking("correct")}>
            Correct
          </button>
          {canMark && (
            <button type="button" disabled={busy} onClick={() => mark({ wrong: true }, "Marked as wrong.")}>
              Mark as wrong
            </button>
          )}
          <button type="button" disabled={busy} class="danger" onClick={() => forget("Forgotten.")}>
            Forget
          </button>
        </div>
      )}
      {asking === "correct" && (
        <Correct
          entry={entry}
          onDone={() => {
            setAsking("");
            onChanged();
          }}
          onNo={() => setAsking("")}
        />
      )}
    </article>
  );
}

function SourceLine({ source, words }: { source: EntrySource; words: string[] }) {
  const [shown, setShown] = useState(false);
  if (!source.thread_id) return null;
  return (
    <div class="stack">
      <div class="quote">
        {LABELS[source.label] ?? source.label}
        {source.quote ? (
          <>
            : “<Marked pieces={markWords(source.quote, words)} />”
          </>
        ) : (
          ""
        )}{" "}
        <button type="button" class="link" aria-expanded={shown} onClick={() => setShown(!shown)}>
          {shown ? "hide its message" : "show it in its message"}
        </button>
      </div>
      {shown && <InMessage source={source} />}
    </div>
  );
}

function InMessage({ source }: { source: EntrySource }) {
  const asked = useAsked(
    (from, signal) =>
      from.call<{ messages: Message[] }>(
        "get_messages",
        { format: "json", thread_id: source.thread_id, before: source.seq + 1, limit: 1, detail: "high" },
        signal,
      ),
    [source.thread_id, source.seq],
  );
  if (asked.error) return <Failure error={asked.error} again={asked.again} />;
  if (!asked.value) return <Loading what="Reading the message" />;
  const message = asked.value.messages.find((each) => each.seq === source.seq);
  if (!message) return <p class="note">The message is not there any more.</p>;
  return (
    <div class={`message ${message.role}`}>
      <div class="who">
        {message.role} <small>#{message.seq}</small>
      </div>
      <div class="body">
        <p class="text">
          <Marked pieces={markQuote(textOfMessage(message), source.quote ?? "")} />
        </p>
        <a
          href={writeRoute({ view: "conversation", thread: source.thread_id, query: { seq: String(source.seq) } })}
          onClick={(event) => {
            event.preventDefault();
            go({ view: "conversation", thread: source.thread_id, query: { seq: String(source.seq) } });
          }}
        >
          Open the conversation “{source.thread_id}”, {showDay(message.said_at)}
        </a>
      </div>
    </div>
  );
}

interface CorrectProps {
  entry: Entry;
  onDone: () => void;
  onNo: () => void;
}

/** A note in other words takes the place of the old one, which is forgotten; both at once, and undone at once. */
function Correct({ entry, onDone, onNo }: CorrectProps) {
  const [text, setText] = useState(entry.content);
  const [busy, act] = useAct();
  useEffect(() => setText(entry.content), [entry.id]);
  const from = memory.value as Memory;
  const correct = () =>
    act(async () => {
      const kept = await from.call<{ undo?: string }>("remember", { content: text.trim(), replaces: entry.id });
      onDone();
      say("Corrected.", {
        undo: async () => {
          await undo(from, kept);
          onDone();
        },
      });
    });
  return (
    <Question
      title="Correct this note"
      yes="Correct"
      ready={!busy && Boolean(text.trim()) && text.trim() !== entry.content.trim()}
      onYes={correct}
      onNo={onNo}
    >
      <div class="field">
        <label for={`correct-${entry.id}`}>What is true instead, in one to three sentences</label>
        <textarea
          id={`correct-${entry.id}`}
          autofocus
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </div>
    </Question>
  );
}
