// Conversations: their list, and one of them message by message, whatever its length.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Memory, describe, isAbort } from "../connection/connection";
import { useAct, useAsked, useSettled, useWatched } from "../parts/asking";
import { Badge, Choice, Empty, Failure, Fold, Head, Loading, Question, Source, TextField } from "../parts/pieces";
import { VirtualList } from "../parts/virtual_list";
import { go, memory, route, say } from "../store";
import type { Message, MessagePage, Part, Thread } from "../stored";
import { holdsAll, showCount, showJson, showMoment, showNumber, wordsOf } from "../text";
import { StepTree } from "./steps";

const PAGE = 100;
const LONG = 1200;

export function Conversations() {
  const { thread } = route.value;
  return (
    <div class="view full wide">
      {thread ? <Conversation key={thread} thread={thread} /> : <ThreadList />}
    </div>
  );
}

interface ThreadPage {
  threads: Thread[];
  next_cursor?: string;
}

function ThreadList() {
  const [query, setQuery] = useState("");
  const [threads, setThreads] = useState<Thread[]>([]);
  const [state, setState] = useState<{ next: string; loading: boolean; error: string }>({ next: "", loading: true, error: "" });
  const from = memory.value as Memory;
  const running = useRef(false);
  const load = useCallback(
    async (cursor: string) => {
      if (running.current) return;
      running.current = true;
      setState((last) => ({ ...last, loading: true, error: "" }));
      try {
        const page = await from.call<ThreadPage>("list_threads", { limit: 100, ...(cursor ? { cursor } : {}) });
        setThreads((last) => (cursor ? [...last, ...page.threads] : page.threads));
        setState({ next: page.next_cursor ?? "", loading: false, error: "" });
      } catch (error) {
        if (!isAbort(error)) setState((last) => ({ ...last, loading: false, error: describe(error) }));
      } finally {
        running.current = false;
      }
    },
    [from],
  );
  useEffect(() => void load(""), [load]);
  useWatched(["memory://threads"], () => void load(""));
  const words = useMemo(() => wordsOf(query), [query]);
  const found = words.length ? threads.filter((each) => holdsAll(`${each.title ?? ""} ${each.thread_id}`, words)) : threads;
  // A search looks through all that there are, a page at a time.
  useEffect(() => {
    if (words.length && state.next && !state.loading) void load(state.next);
  }, [words, state.next, state.loading]);
  return (
    <>
      <Head title="Conversations" note={threads.length ? `${showCount(threads.length, "conversation")}${state.next ? " so far" : ""}` : ""}>
        <TextField search hidden label="Search titles and names" placeholder="Search titles and names" value={query} onInput={setQuery} />
      </Head>
      {state.error && <Failure error={state.error} again={() => void load(state.next)} />}
      {state.loading && !threads.length && <Loading what="Reading the conversations" />}
      {!state.loading && !found.length && (
        <Empty title={threads.length ? "No conversation has these words in its title" : "No conversations are kept yet"}>
          <p>{threads.length ? "The recall bench searches what was said." : "They appear here as soon as an agent stores messages."}</p>
        </Empty>
      )}
      {found.length > 0 && (
        <VirtualList
          count={found.length}
          estimate={62}
          label="Conversations, changed last first"
          listKey={query}
          onRange={(_, to) => {
            if (to >= found.length - 20 && state.next && !state.loading) void load(state.next);
          }}
          row={(index) => {
            const each = found[index] as Thread;
            return (
              <button type="button" class="picked" onClick={() => go({ view: "conversation", thread: each.thread_id })}>
                <span class="title">{each.title || each.thread_id}</span>
                <span class="meta">
                  {showCount(each.messages, "message")} · {showNumber(each.tokens)} tokens · {showMoment(each.updated_at)} · {each.thread_id}
                </span>
              </button>
            );
          }}
        />
      )}
    </>
  );
}

interface Observation {
  from_seq?: number;
  to_seq?: number;
  text?: string;
  content?: string;
  [other: string]: unknown;
}

interface Observed {
  observations: Observation[];
  observed_seq: number;
  tokens: number;
}

function Conversation({ thread }: { thread: string }) {
  const { query } = route.value;
  const from = memory.value as Memory;
  const sought = query["seq"] ? Number(query["seq"]) : null;
  const tab = query["tab"] ?? "messages";
  const [pages, setPages] = useState(new Map<number, Message>());
  const [total, setTotal] = useState<number | null>(null);
  const [error, setError] = useState("");
  const [target, setTarget] = useState<number | "end">("end");
  const [asking, setAsking] = useState<"" | "turn" | "thread">("");
  const [busy, act] = useAct();
  const uri = `memory://threads/${encodeURIComponent(thread)}`;
  const described = useAsked((at, signal) => at.call<ThreadPage>("list_threads", { thread_id: thread }, signal), [thread]);
  const observed = useAsked((at, signal) => at.readJson<Observed>(`${uri}/observations`, signal), [thread]);
  const context = useAsked(
    (at, signal) =>
      at.call<{ blocks?: { block: string; messages?: Message[] }[] }>("get_context", { thread_id: thread, format: "json" }, signal),
    [thread],
  );
  const range = useRef({ from: 0, to: 0 });
  const loading = useRef(new Set<number>());
  const generation = useRef(0);

  const load = useCallback(
    async (start: number) => {
      if (loading.current.has(start)) return;
      loading.current.add(start);
      const born = generation.current;
      try {
        // `offset` counts the messages that there are, from the oldest one on.
        for (let at = start; at < start + PAGE; ) {
          const page = await from.call<MessagePage>("get_messages", { thread_id: thread, offset: at, limit: start + PAGE - at });
          if (born !== generation.current) return;
          const got = page.messages;
          setTotal(page.total);
          setPages((last) => {
            const next = new Map(last);
            got.forEach((message, index) => next.set(at + index, message));
            return next;
          });
          setError("");
          if (!got.length || at + got.length >= page.total) break;
          at += got.length;
        }
      } catch (failure) {
        if (!isAbort(failure)) setError(describe(failure));
      } finally {
        loading.current.delete(start);
      }
    },
    [from, thread],
  );

  const loadRange = useCallback(
    (first: number, last: number) => {
      range.current = { from: first, to: last };
      for (let start = Math.floor(first / PAGE) * PAGE; start < last; start += PAGE) {
        let missing = false;
        for (let at = Math.max(first, start); at < Math.min(last, start + PAGE); at++) missing ||= !pages.has(at);
        if (missing) void load(start);
      }
    },
    [load, pages],
  );

  const begin = useCallback(async () => {
    generation.current++;
    loading.current.clear();
    try {
      const newest = await from.call<MessagePage>("get_messages", {
        thread_id: thread,
        limit: 50,
        ...(sought === null ? {} : { before: sought + 1 }),
      });
      setTotal(newest.total);
      const index = sought === null ? newest.total - newest.messages.length : await placeOf(from, thread, sought, newest);
      setPages(new Map(newest.messages.map((message, at) => [sought === null ? index + at : index - newest.messages.length + 1 + at, message])));
      setTarget(sought === null ? "end" : Math.max(0, index));
      setError("");
    } catch (failure) {
      if (!isAbort(failure)) setError(describe(failure));
    }
  }, [from, thread, sought]);
  useEffect(() => void begin(), [begin]);
  useWatched([`${uri}/messages`], () => {
    // What came is read at the end; what stands before is as it was, unless fewer are there now.
    void from.call<MessagePage>("get_messages", { thread_id: thread, limit: 1 }).then((page) => {
      if (total !== null && page.total > total) {
        setTotal(page.total);
        void load(Math.floor(total / PAGE) * PAGE);
      } else if (page.total !== total) void begin();
    });
    observed.again();
    context.again();
  });

  const title = described.value?.threads[0]?.title || thread;
  const windowFrom = context.value?.blocks?.flatMap((block) => block.messages ?? [])[0]?.seq;
  const notedTo = observed.value?.observed_seq ?? 0;
  const show = (name: string) => go({ view: "conversation", thread, query: name === "messages" ? {} : { tab: name } }, true);
  const removed = (what: string, again: () => Promise<unknown>) => {
    void begin();
    say(what, {
      undo: async () => {
        await again();
        await begin();
      },
    });
  };
  const removeMessages = (given: { which: string; ids?: string[] }) =>
    act(async () => {
      const answer = await from.call<{ deleted: number; deletion?: string }>("delete_messages", { ...given, thread_id: thread });
      setAsking("");
      removed(`${showCount(answer.deleted, "message")} deleted.`, () =>
        from.call("delete_messages", { which: "undo", ...(answer.deletion ? { ids: [answer.deletion] } : { thread_id: thread }) }),
      );
    });
  const removeThread = () =>
    act(async () => {
      const answer = await from.call<{ deletion: string }>("delete_thread", { thread_id: thread });
      setAsking("");
      go({ view: "conversation" });
      say("The conversation is deleted.", {
        undo: async () => {
          await from.call("delete_messages", { which: "undo", ids: [answer.deletion] });
          go({ view: "conversation", thread });
        },
      });
    });

  return (
    <>
      <Head
        title={title}
        note={
          <>
            <button type="button" class="link" onClick={() => go({ view: "conversation" })}>
              All conversations
            </button>{" "}
            · {thread} {total !== null && `· ${showCount(total, "message")}`}
          </>
        }
      >
        <Choice
          label="What of the conversation"
          value={tab as "messages"}
          choices={[
            { value: "messages", title: "Messages" },
            { value: "notes" as "messages", title: "Notes" },
            { value: "steps" as "messages", title: "Steps" },
          ]}
          onChange={show}
        />
        <button type="button" onClick={() => go({ view: "context", thread })}>
          Context
        </button>
        <button type="button" disabled={busy || !total} onClick={() => setAsking("turn")}>
          Delete last turn
        </button>
        <button type="button" class="danger" disabled={busy || total === null} onClick={() => setAsking("thread")}>
          Delete
        </button>
      </Head>
      {error && <Failure error={error} again={() => void begin()} />}
      {tab === "notes" ? (
        <Notes observed={observed.value} error={observed.error} />
      ) : tab === "steps" ? (
        <StepTree thread={thread} />
      ) : total === null ? (
        !error && <Loading what="Reading the conversation" />
      ) : total === 0 ? (
        <Empty title="Nothing is said here">
          <p>What was deleted can be undone for as long as the server keeps it.</p>
          <button
            type="button"
            disabled={busy}
            onClick={() =>
              act(async () => {
                const answer = await from.call<{ restored?: number }>("delete_messages", { which: "undo", thread_id: thread });
                say(`${showCount(answer.restored ?? 0, "message")} brought back.`);
                await begin();
              })
            }
          >
            Undo the newest delete
          </button>
        </Empty>
      ) : (
        <VirtualList
          count={total}
          estimate={92}
          label="Messages, oldest first"
          listKey={thread}
          scrollTo={target}
          scrollKey={`${thread} ${sought} ${generation.current}`}
          onRange={loadRange}
          row={(index) => {
            const message = pages.get(index);
            if (!message) return <div class="skeleton" aria-label="Reading this message" />;
            return (
              <>
                {message.seq === windowFrom && index > 0 && <p class="cut-line">the model's window begins here</p>}
                <MessageCard
                  message={message}
                  thread={thread}
                  sought={message.seq === sought}
                  noted={message.seq <= notedTo}
                  onDelete={() => removeMessages({ which: "ids", ids: [message.id] })}
                  busy={busy}
                />
              </>
            );
          }}
        />
      )}
      {asking === "turn" && (
        <Question
          title="Delete the last turn?"
          yes="Delete"
          danger
          ready={!busy}
          onYes={() => removeMessages({ which: "last_turn" })}
          onNo={() => setAsking("")}
        >
          <p>What the user said last, and all after it, goes, with what was derived from it. It can be undone.</p>
        </Question>
      )}
      {asking === "thread" && (
        <Question title="Delete this conversation?" yes="Delete" danger ready={!busy} onYes={removeThread} onNo={() => setAsking("")}>
          <p>
            “{title}” goes with {showCount(total ?? 0, "message")} and all that was derived from them. It can be undone.
          </p>
        </Question>
      )}
    </>
  );
}

/** At which place of all messages one with this seq stands: seqs have holes where messages were deleted. */
async function placeOf(from: Memory, thread: string, seq: number, newest: MessagePage): Promise<number> {
  if (!newest.messages.length) return 0;
  let low = 0;
  let high = Math.min(newest.total - 1, seq - 1);
  // Without holes the first look finds it.
  for (let at = high; low < high; at = Math.ceil((low + high) / 2)) {
    const page = await from.call<MessagePage>("get_messages", { thread_id: thread, offset: at, limit: 1 });
    const found = page.messages[0]?.seq ?? Infinity;
    if (found === seq) return at;
    if (found > seq) high = at - 1;
    else low = at;
  }
  return low;
}

interface MessageProps {
  message: Message;
  thread: string;
  sought: boolean;
  noted: boolean;
  busy: boolean;
  onDelete: () => void;
}

function MessageCard({ message, thread, sought, noted, busy, onDelete }: MessageProps) {
  return (
    <article class={`message ${message.role}${sought ? " sought" : ""}`} aria-label={`${message.role}, message ${message.seq}`}>
      <div class="who">
        {message.name || message.role}
        <small>#{message.seq}</small>
      </div>
      <div class="body">
        {message.parts.map((part) => (
          <PartShown part={part} thread={thread} />
        ))}
        <div class="row meta">
          <span>{showMoment(message.said_at)}</span>
          {message.tokens !== undefined && <span>{showNumber(message.tokens)} tokens</span>}
          {noted && <Badge title="Notes stand for this message where the window does not reach it.">noted</Badge>}
          <span class="acts">
            <button type="button" disabled={busy} aria-label={`Delete message ${message.seq}`} onClick={onDelete}>
              Delete
            </button>
          </span>
        </div>
      </div>
    </article>
  );
}

function PartShown({ part, thread }: { part: Part; thread: string }) {
  switch (part.type) {
    case "text":
      return <LongText text={part.text ?? ""} />;
    case "tool_call":
      return (
        <Fold title={<>calls {part.name}</>}>
          <Source text={showJson(part.arguments)} label={`Arguments of ${part.name}`} />
        </Fold>
      );
    case "tool_result":
      return (
        <Fold title={part.is_error ? "the tool failed" : "what the tool returned"}>
          <Source text={showJson(part.result)} label="What the tool returned" />
        </Fold>
      );
    case "image":
      return <Picture part={part} thread={thread} />;
    default:
      return (
        <Fold title={part.type.replace("_", " ")}>
          {part.text !== undefined ? <p class="text">{part.text}</p> : <Source text={showJson(part)} label={part.type} />}
        </Fold>
      );
  }
}

function LongText({ text }: { text: string }) {
  const [whole, setWhole] = useState(text.length <= LONG);
  return (
    <>
      <p class={whole ? "text" : "text clamped"}>{whole ? text : text.slice(0, LONG * 2)}</p>
      {text.length > LONG && (
        <button type="button" class="link" aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {whole ? "Show less" : `Show all ${showNumber(text.length)} characters`}
        </button>
      )}
    </>
  );
}

/** An image is loaded when somebody asks for it, and never from elsewhere than the memory. */
function Picture({ part, thread }: { part: Part; thread: string }) {
  const [shown, setShown] = useState("");
  const [busy, act] = useAct();
  if (!part.part || part.url) return <p class="note">An image that stands elsewhere: {part.url ?? part.mime_type}</p>;
  if (shown) return <img src={shown} alt={`Image of the message, ${part.mime_type}`} />;
  return (
    <button
      type="button"
      disabled={busy}
      onClick={() =>
        act(async () => {
          const answer = await (memory.value as Memory).callWhole("get_messages", { thread_id: thread, part: part.part });
          const image = answer.content?.find((block) => block.type === "image");
          if (!image?.data || !/^image\/(png|jpeg|gif|webp|avif)$/.test(image.mimeType ?? ""))
            throw new Error("this part is no image that a page can show");
          setShown(`data:${image.mimeType};base64,${image.data}`);
        })
      }
    >
      Show image ({part.mime_type}
      {part.bytes ? `, ${showNumber(part.bytes)} bytes` : ""})
    </button>
  );
}

function Notes({ observed, error }: { observed: Observed | undefined; error: string }) {
  const settled = useSettled(observed, 0);
  if (error) return <Failure error={error} />;
  if (!settled) return <Loading what="Reading the notes" />;
  if (!settled.observations.length)
    return (
      <Empty title="No notes stand for any of these messages">
        <p>Notes are made once a conversation is long: until then, models are shown the messages themselves.</p>
      </Empty>
    );
  return (
    <div class="stack scroll-y">
      <p class="note">
        They tell messages up to #{settled.observed_seq}, in {showCount(settled.tokens, "token")}.
      </p>
      {settled.observations.map((note, index) => (
        <section class="card" aria-label={`Note ${index + 1}`}>
          <Source text={showJson(note.text ?? note.content ?? note)} label={`Note ${index + 1}`} />
        </section>
      ))}
    </div>
  );
}
