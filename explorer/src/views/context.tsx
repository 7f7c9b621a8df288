// What a model sees in a conversation, as `get_context` gives it: block by block, with what it costs and what was left out.

import { useEffect, useState } from "preact/hooks";
import { BLOCKS, nameBlock } from "../names";
import { useAsked, useSettled, useWatched } from "../parts/asking";
import { Badge, Choice, Empty, Failure, Fold, Head, Loading, Slider, Source, TextField } from "../parts/pieces";
import { ThreadField } from "../parts/threads";
import { go, route } from "../store";
import type { Message } from "../stored";
import { showCount, showJson, showNumber } from "../text";

// What stands behind the place where a prompt cache may cut: it changes with each call.
const CHANGING = new Set(["session-memory", "current-task", "plan", "previous-attempts", "open-work", "memory", "current-turn"]);

const FORMATS = [
  { value: "json", title: "Parts" },
  { value: "text", title: "Text" },
  { value: "openai", title: "OpenAI" },
  { value: "anthropic", title: "Anthropic" },
  { value: "responses", title: "Responses" },
  { value: "gemini", title: "Gemini" },
  { value: "ai-sdk", title: "AI SDK" },
] as const;
type Format = (typeof FORMATS)[number]["value"];

interface BlockShown {
  block: string;
  text?: string;
  messages?: Message[];
}

interface Report {
  tokens: number;
  max_tokens: number;
  blocks: { block: string; tokens: number }[];
  left_out?: string[];
  degraded?: string[] | string;
}

interface Context {
  blocks?: BlockShown[];
  report: Report;
}

// The slider goes by powers, since 500 and 200,000 are both of use.
const LEAST = Math.log2(500);
const MOST = Math.log2(200_000);
const tokensAt = (place: number): number => {
  const raw = 2 ** place;
  const step = raw < 4000 ? 100 : raw < 20_000 ? 500 : 5000;
  return Math.min(200_000, Math.max(500, Math.round(raw / step) * step));
};

export function ContextPreview() {
  const { thread, query } = route.value;
  const [question, setQuestion] = useState(query["q"] ?? "");
  const [place, setPlace] = useState(Math.log2(8000));
  const [format, setFormat] = useState<Format>("json");
  const tokens = useSettled(tokensAt(place), 250);
  const asking = useSettled(question, 300);
  const given = { thread_id: thread, max_tokens: tokens, ...(asking.trim() ? { query: asking.trim() } : {}) };
  const asked = useAsked(
    thread ? (from, signal) => from.call<Context>("get_context", { ...given, format: "json" }, signal) : null,
    [thread, tokens, asking],
  );
  const shaped = useAsked(
    thread && format !== "json" ? (from, signal) => from.call<unknown>("get_context", { ...given, format }, signal) : null,
    [thread, tokens, asking, format],
  );
  useWatched(thread ? [`memory://threads/${encodeURIComponent(thread)}/messages`, "memory://profile"] : [], asked.again);
  return (
    <div class="view">
      <Head title="What the model sees" note="All that an assistant is shown before its next answer, and how long that is." />
      <div class="card stack">
        <div class="row">
          <ThreadField value={thread} onPick={(picked) => go({ view: "context", thread: picked })} />
          <TextField
            search
            label="Question"
            placeholder="If empty: your newest message"
            value={question}
            onInput={setQuestion}
          />
          <Slider
            label="Most tokens"
            value={place}
            least={LEAST}
            most={MOST}
            step={0.02}
            show={(at) => showNumber(tokensAt(at))}
            onInput={setPlace}
          />
        </div>
        {asked.value && thread && <Bar report={asked.value.report} loading={asked.loading} />}
      </div>
      {!thread && (
        <Empty title="Choose a conversation">
          <p>
            Each part of what its assistant sees is then shown. A name that nobody wrote to yet shows how a new conversation
            begins.
          </p>
        </Empty>
      )}
      {asked.error && <Failure error={asked.error} again={asked.again} />}
      {thread && asked.loading && !asked.value && <Loading what="Putting it together" />}
      {thread && asked.value && (
        <>
          <LeftOut report={asked.value.report} />
          <Choice label="Shown as" value={format} choices={FORMATS} onChange={setFormat} />
          {format === "json" ? (
            <Blocks context={asked.value} />
          ) : shaped.error ? (
            <Failure error={shaped.error} again={shaped.again} />
          ) : shaped.value === undefined ? (
            <Loading what="Putting it together" />
          ) : (
            <Source text={showJson(withoutReport(shaped.value))} label={`What the model sees, as ${format}`} />
          )}
        </>
      )}
    </div>
  );
}

function withoutReport(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const { report, ...rest } = value as { report?: unknown };
  void report;
  return rest;
}

const hueOf = (block: string): string => `hue-${[...block].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7) % 8}`;
const HUES: { [block: string]: string } = {
  "predefined-messages": "hue-7",
  "user-profile": "hue-1",
  observations: "hue-5",
  summary: "hue-6",
  conversation: "hue-0",
  "session-memory": "hue-2",
  plan: "hue-4",
  "previous-attempts": "hue-7",
  "open-work": "hue-6",
  memory: "hue-3",
  "current-turn": "hue-8",
};

function Bar({ report, loading }: { report: Report; loading: boolean }) {
  const most = report.max_tokens;
  const cutAt = report.blocks.findIndex((each) => CHANGING.has(each.block));
  const share = (tokens: number): string => `${((100 * tokens) / Math.max(most, report.tokens)).toFixed(2)}%`;
  const described = report.blocks.map((each) => `${nameBlock(each.block)} ${each.tokens}`).join(", ");
  return (
    <div class="stack" aria-busy={loading}>
      <div
        class="bar"
        role="img"
        aria-label={`${report.tokens} of ${most} tokens: ${described}`}
      >
        {report.blocks.map((each, index) => (
          <span
            class={`${HUES[each.block] ?? hueOf(each.block)}${index === cutAt - 1 ? " cut-here" : ""}`}
            style={{ width: share(each.tokens) }}
            title={`${nameBlock(each.block)}: ${showNumber(each.tokens)} tokens`}
          />
        ))}
      </div>
      <div class="legend">
        <strong>
          {showNumber(report.tokens)} of {showNumber(most)} tokens
        </strong>
        {report.blocks.map((each) => (
          <span title={BLOCKS[each.block]?.meaning}>
            <span class={`dot ${HUES[each.block] ?? hueOf(each.block)}`} />
            {nameBlock(each.block)} {showNumber(each.tokens)}
          </span>
        ))}
      </div>
    </div>
  );
}

function LeftOut({ report }: { report: Report }) {
  const degraded = [report.degraded ?? []].flat();
  return (
    <>
      {degraded.map((why) => (
        <p class="warning">Something is missing: {why}</p>
      ))}
      {report.left_out && report.left_out.length > 0 && (
        <p class="warning">
          Left out, because at most {showNumber(report.max_tokens)} tokens fit: {report.left_out.join("; ")}. Allow more tokens to
          see it.
        </p>
      )}
    </>
  );
}

function Blocks({ context }: { context: Context }) {
  const blocks = context.blocks ?? [];
  const cutAt = blocks.findIndex((each) => CHANGING.has(each.block));
  const tokens = new Map(context.report.blocks.map((each) => [each.block, each.tokens]));
  if (!blocks.length)
    return (
      <Empty title="The model sees nothing of this memory">
        <p>Nothing is remembered that bears on this. Ask a question, or choose a conversation that has messages.</p>
      </Empty>
    );
  return (
    <div class="stack">
      {blocks.map((each, index) => (
        <>
          {index === cutAt && <p class="cut-line">what follows changes with each question</p>}
          <section class="card" aria-label={nameBlock(each.block)}>
            <div class="card-head">
              <h2>
                <span class={`dot ${HUES[each.block] ?? hueOf(each.block)}`} />
                <span title={each.block}>{nameBlock(each.block)}</span>
              </h2>
              <span class="meta">{showCount(tokens.get(each.block) ?? 0, "token")}</span>
            </div>
            <p class="note">{BLOCKS[each.block]?.meaning}</p>
            {each.text !== undefined && <Source text={each.text} label={`Text of ${nameBlock(each.block)}`} />}
            {each.messages && <Window messages={each.messages} />}
          </section>
        </>
      ))}
    </div>
  );
}

const SHOWN_AT_ONCE = 40;

function Window({ messages }: { messages: Message[] }) {
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  useEffect(() => setShown(SHOWN_AT_ONCE), [messages]);
  const hidden = Math.max(0, messages.length - shown);
  return (
    <div class="stack">
      {hidden > 0 && (
        <button type="button" class="link" onClick={() => setShown(shown + 200)}>
          Show {showCount(Math.min(hidden, 200), "earlier message")} of {showNumber(hidden)}
        </button>
      )}
      {messages.slice(-shown).map((message) => (
        <div class={`message ${message.role}`}>
          <div class="who">
            {message.role}
            {message.seq !== undefined && <small>#{message.seq}</small>}
          </div>
          <div class="body">
            {message.parts.map((part) =>
              part.text !== undefined ? (
                <p class="text">{part.text}</p>
              ) : (
                <Fold title={<Badge>{part.type.replace("_", " ")}</Badge>}>
                  <Source text={showJson({ ...part, ...("data" in part ? { data: "…" } : {}) })} label={part.type} />
                </Fold>
              ),
            )}
          </div>
        </div>
      ))}
    </div>
  );
}
