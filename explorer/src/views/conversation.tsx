// Conversations: their list, and one of them message by message, whatever its length.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Act, type Memory, describe, isAbort, undo } from "../connection/connection";
import { useAct, useAsked, useSettled, useWatched } from "../parts/asking";
import { Badge, Choice, Empty, Failure, Fold, Head, Loading, Question, Source, TextField } from "../parts/pieces";
import { usePaged } from "../parts/paged";
import { VirtualList } from "../parts/virtual_list";
import { go, memory, route, say } from "../store";
import type { Message, MessagePage, Part, Thread } from "../stored";
import { showCount, showJson, showMoment, showNumber } from "../text";
import { StepTree } from "./steps";

// The tools whose deletes of a conversation this page brings back.
const DELETES = ["delete_messages", "delete_thread", "forget", "retention"];
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
  total?: number;
}

function ThreadList() {
  const [query, setQuery] = useState("");
  const sought = useSettled(query.trim(), 120);
  const from = memory.value as Memory;
  const threads = usePaged<Thread>((offset, limit) =>
    from
      .call<ThreadPage>("explore_threads", { offset, limit, ...(sought ? { query: sought } : {}) })
      .then((page) => ({ items: page.threads, total: page.total ?? page.threads.length })),
  );
  const { begin, look, total } = threads;
  useEffect(() => {
    look(0, 0);
    begin(null);
  }, [begin, look, from, sought]);
  useWatched(["memory://threads"], () => begin(null));
  return (
    <>
      <Head title="Conversations" note={total === null ? "" : `${showCount(total, "conversation")}${sought ? " found" : ""}`}>
        <TextField search hidden label="Search titles and names" placeholder="Search titles and names" value={query} onInput={setQuery} />
      </Head>
      {threads.error && <Failure error={threads.error} again={() => begin(null)} />}
      {total === null && !threads.error && <Loading what="Reading the conversations" />}
      {total === 0 && (
        <Empty title={sought ? "No conversation has these words in its title" : "No conversations are kept yet"}>
            {sought ? (
            <button type="button" class="link" onClick={() => go({ view: "recall", query: { q: query } })}>
              Search everything that was said
            </button>
          ) : (
            <p>They appear here as soon as an agent stores messages.</p>
          )}
        </Empty>
      )}
      {total !== null && total > 0 && (
        <VirtualList
          count={total}
          estimate={68}
          label="Conversations, changed last first"
          listKey={sought}
          scrollTo={0}
          scrollKey={sought}
          onRange={look}
          row={(index) => {
            const each = threads.at(index);
            if (!each) return <div class="skeleton thread" aria-label="Reading this conversation" />;
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
  // `offset` counts the messages that there are, from the oldest one on.
  const messages = usePaged<Message>((offset, limit) =>
    from.call<MessagePage>("get_messages", { format: "json", thread_id: thread, offset, limit }).then((page) => ({ items: page.messages, total: page.total })),
  );
  const { total } = messages;
  const [failure, setFailure] = useState("");
  const error = failure || messages.error;
  const begun = useRef(0);
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
  const begin = useCallback(async () => {
    const born = ++begun.current;
    // Asked for beside the rest, and not after it; what fails is told by what waits for it.
    const guess = sought === null ? Promise.resolve(Infinity) : seqAt(from, thread, Math.max(0, sought - 1));
    guess.catch(() => undefined);
    try {
      const newest = await from.call<MessagePage>("get_messages", {
        format: "json",
        thread_id: thread,
        limit: 50,
        ...(sought === null ? {} : { before: sought + 1 }),
      });
      const index = sought === null ? newest.total - newest.messages.length : await placeOf(from, thread, sought, newest, guess);
      if (born !== begun.current) return;
      messages.begin({
        total: newest.total,
        from: sought === null ? index : index - newest.messages.length + 1,
        items: newest.messages,
      });
      setTarget(sought === null ? "end" : Math.max(0, index));
      setFailure("");
    } catch (reason) {
      if (!isAbort(reason)) setFailure(describe(reason));
    }
  }, [from, thread, sought, messages.begin]);
  useEffect(() => void begin(), [begin]);
  useWatched([`${uri}/messages`], () => {
    // What came is read at the end; what stands before is as it was, unless fewer are there now.
    void from.call<MessagePage>("get_messages", { format: "json", thread_id: thread, limit: 1 }).then((page) => {
      if (total !== null && page.total > total) messages.read(total);
      else if (page.total !== total) void begin();
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
      const answer = await from.call<{ deleted: number; undo?: string }>("delete_messages", { ...given, thread_id: thread });
      setAsking("");
      removed(`${showCount(answer.deleted, "message")} deleted.`, () => undo(from, answer));
    });
  const removeThread = () =>
    act(async () => {
      const answer = await from.call<{ undo?: string }>("delete_thread", { thread_id: thread });
      setAsking("");
      go({ view: "conversation" });
      say("Conversation deleted.", {
        undo: async () => {
          await undo(from, answer);
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
            · {thread} {total !== null && `· ${showCount(total, "message")}`} ·{" "}
            <button type="button" class="link" onClick={() => go({ view: "context", thread })}>
              What the model sees
            </button>
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
        <button type="button" disabled={busy || !total} onClick={() => setAsking("turn")}>
          Delete last question
        </button>
        <button type="button" class="danger" disabled={busy || total === null} onClick={() => setAsking("thread")}>
          Delete conversation
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
                const { acts } = await from.call<{ acts: Act[] }>("undo");
                const newest = acts.find((each) => each.thread_ids?.includes(thread) && DELETES.includes(each.tool));
                if (!newest) return say("There is nothing to bring back.");
                const answer = await undo(from, { undo: newest.undo_id });
                say(`${showCount(answer.messages ?? 0, "message")} brought back.`);
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
          scrollKey={`${thread} ${sought} ${begun.current}`}
          onRange={messages.look}
          row={(index) => {
            const message = messages.at(index);
            if (!message) return <div class="skeleton" aria-label="Reading this message" />;
            return (
              <>
                {message.seq === windowFrom && index > 0 && <p class="cut-line">from here on the model sees the messages themselves</p>}
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
          title="Delete the last question?"
          yes="Delete"
          danger
          ready={!busy}
          onYes={() => removeMessages({ which: "last_turn" })}
          onNo={() => setAsking("")}
        >
          <p>The newest message of the user, all that came after it, and all that was made from them go. It can be undone.</p>
        </Question>
      )}
      {asking === "thread" && (
        <Question title="Delete this conversation?" yes="Delete" danger ready={!busy} onYes={removeThread} onNo={() => setAsking("")}>
          <p>
            “{title}” goes with {showCount(total ?? 0, "message")} and all that was made from them. It can be undone.
          </p>
        </Question>
      )}
    </>
  );
}

/** The seq of the message at a place of all; Infinity behind the last. */
async function seqAt(from: Memory, thread: string, offset: number): Promise<number> {
  const page = await from.call<MessagePage>("get_messages", { format: "json", thread_id: thread, offset, limit: 1 });
  return page.messages[0]?.seq ?? Infinity;
}

/** At which place of all messages one with this seq stands: seqs have holes where messages were deleted. `guess` is the seq
 * at the place where it stands without holes. */
async function placeOf(from: Memory, thread: string, seq: number, newest: MessagePage, guess: Promise<number>): Promise<number> {
  if (!newest.messages.length) return 0;
  if ((await guess) === seq) return seq - 1;
  let low = 0;
  let high = Math.min(newest.total - 1, seq - 1);
  while (low < high) {
    const at = Math.ceil((low + high) / 2);
    const found = await seqAt(from, thread, at);
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
          {noted && <Badge title="A model that does not see this message any more sees notes on it.">noted</Badge>}
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
      return (
        <>
          {part.caption && <LongText text={`[image: ${part.caption}]`} />}
          {(part.url || part.part || !part.caption) && <Picture part={part} thread={thread} />}
        </>
      );
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
          const answer = await (memory.value as Memory).callWhole("get_messages", { format: "json", thread_id: thread, part: part.part });
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
        They stand for the messages up to #{settled.observed_seq}, in {showCount(settled.tokens, "token")}.
      </p>
      {settled.observations.map((note, index) => (
        <section class="card" aria-label={`Note ${index + 1}`}>
          <Source text={showJson(note.text ?? note.content ?? note)} label={`Note ${index + 1}`} />
        </section>
      ))}
    </div>
  );
}
