// Searching everything that was said: what a question finds, why, and what is held back.

import { useEffect, useState } from "preact/hooks";
import { MEASURES, REASONS, nameHitKind, nameSignal } from "../names";
import { useAsked, useSettled } from "../parts/asking";
import { Badge, Empty, Failure, Fold, Head, Loading, Marked, Slider, TextField } from "../parts/pieces";
import { ThreadField } from "../parts/threads";
import { go, route, writeRoute } from "../store";
import type { EntrySource } from "../stored";
import { markWords, showCount, showDay } from "../text";
import { LABELS } from "./remembered";

interface Hit {
  kind: "message" | "entry" | "profile" | "session_memory" | "plan" | "attempt" | "observation";
  id: string;
  thread_id?: string;
  seq?: number;
  role?: string;
  name?: string;
  text: string;
  said_at: string;
  age?: string;
  about?: string;
  trust?: string;
  status?: string;
  score: number;
  sources?: EntrySource[];
  parts?: { [part: string]: number | string[] };
}

interface Found {
  hits: Hit[];
  signals: string[];
  words?: string[];
  held_back?: number;
  degraded?: string[] | string;
  unsure?: boolean;
}

const SURE = 0.5;

export function Search() {
  const { query, thread } = route.value;
  const [question, setQuestion] = useState(query["q"] ?? "");
  const [floor, setFloor] = useState(0);
  const [kind, setKind] = useState<"all" | "entry" | "message">("all");
  const asking = useSettled(question.trim(), 300);
  useEffect(() => {
    if (asking !== (query["q"] ?? "")) go({ view: "recall", thread, query: asking ? { q: asking } : {} }, true);
  }, [asking]);
  const given = {
    query: asking,
    format: "json",
    explain: true,
    opening: false,
    limit: 50,
    max_tokens: 20_000,
    detail: "high",
    ...(thread ? { thread_id: thread } : {}),
    ...(kind !== "all" ? { kinds: [kind] } : {}),
  };
  // All that is found at all, and what the server's own floor gives: what stands between is held back.
  const own = useAsked(
    asking ? (from, signal) => from.call<Found>("recall_memory", given, signal) : null,
    [asking, thread, kind],
  );
  const every = useAsked(
    asking ? (from, signal) => from.call<Found>("recall_memory", { ...given, min_score: 0.0001 }, signal) : null,
    [asking, thread, kind],
  );
  const hits = mergeHits(own.value?.hits ?? [], every.value?.hits ?? []);
  const passed = new Set((own.value?.hits ?? []).map((hit) => hit.id));
  const kept = hits.filter((hit) => (floor > 0 ? hit.score >= floor : passed.has(hit.id)));
  const held = hits.filter((hit) => !kept.includes(hit));
  const words = own.value?.words ?? [];
  const degraded = [own.value?.degraded ?? []].flat();
  return (
    <div class="view">
      <Head title="Search everything" note="What a question finds in all that was said and noted, and why." />
      <div class="card stack">
        <div class="row">
          <TextField
            search
            label="Question"
            placeholder="Such as: What am I allergic to?"
            value={question}
            onInput={setQuestion}
          />
          <ThreadField value={thread} all="All of them" onPick={(picked) => go({ view: "recall", thread: picked, query })} />
          <div class="field">
            <label for="recall-kind">Look through</label>
            <select id="recall-kind" value={kind} onChange={(event) => setKind(event.currentTarget.value as typeof kind)}>
              <option value="all">Notes and messages</option>
              <option value="entry">Notes</option>
              <option value="message">Messages</option>
            </select>
          </div>
          <Slider
            label="How sure it must be"
            value={floor}
            least={0}
            most={1}
            step={0.01}
            show={(at) => (at === 0 ? "the usual" : showShare(at))}
            onInput={setFloor}
          />
        </div>
        {own.value && asking && (
          <div class="row meta">
            {own.value.signals.map((signal) => (
              <Badge tone="good">{nameSignal(signal)}</Badge>
            ))}
            <span>
              {kept.length} found{held.length > 0 && `, ${held.length} not sure enough`}
            </span>
            {words.length > 0 && <span>looked for: {words.join(", ")}</span>}
          </div>
        )}
      </div>
      {degraded.map((why) => (
        <p class="warning">Something is missing: {why}</p>
      ))}
      {own.error && <Failure error={own.error} again={own.again} />}
      {!asking && (
        <Empty title="Ask something">
          <p>Each line that is found says why. What is not sure enough to be shown to a model is grey.</p>
        </Empty>
      )}
      {asking && own.loading && !own.value && <Loading what="Searching" />}
      {asking && own.value && !own.loading && kept.length === 0 && (
        <Empty title="Nothing relevant is remembered about this">
          <p>
            {held.length
              ? `The nearest ${showCount(held.length, "line")} are below, in grey.`
              : "Ask in other words, or in all conversations."}
          </p>
        </Empty>
      )}
      <div class="stack" aria-busy={own.loading}>
        {asking && kept.map((hit) => <HitCard key={hit.id} hit={hit} words={words} held={false} />)}
        {asking && held.length > 0 && <p class="cut-line">not sure enough</p>}
        {asking && held.map((hit) => <HitCard key={hit.id} hit={hit} words={words} held />)}
      </div>
    </div>
  );
}

function mergeHits(own: Hit[], every: Hit[]): Hit[] {
  const byId = new Map<string, Hit>();
  for (const hit of [...own, ...every]) if (!byId.has(hit.id)) byId.set(hit.id, hit);
  return [...byId.values()].sort((one, other) => other.score - one.score);
}

const showShare = (share: number): string => `${share > 0 && share < 0.01 ? "under 1" : Math.round(100 * share)}%`;

function nameKind(hit: Hit): string {
  if (hit.kind === "message") return hit.role ?? "message";
  return nameHitKind(hit.kind) + (hit.status ? `, ${hit.status}` : "");
}

function HitCard({ hit, words, held }: { hit: Hit; words: string[]; held: boolean }) {
  const place =
    hit.kind !== "entry" ? { thread: hit.thread_id ?? "", seq: hit.seq } : { thread: hit.sources?.[0]?.thread_id ?? "", seq: hit.sources?.[0]?.seq };
  const source = hit.sources?.[0];
  const query: { [name: string]: string } = place.seq === undefined ? {} : { seq: String(place.seq) };
  const route = { view: "conversation" as const, thread: place.thread, query };
  return (
    <article class={`card hit${held ? " held" : ""}`} aria-label={hit.text.slice(0, 80)}>
      <div class="card-head">
        <div class="row meta">
          <span class="score" title="How surely it is about the question">
            {showShare(hit.score)}
          </span>
          <Badge tone={hit.kind === "entry" ? "accent" : "plain"}>{nameKind(hit)}</Badge>
          {!held && hit.score < SURE && <Badge tone="warn">not sure</Badge>}
          <span>{showDay(hit.said_at)}</span>
          {hit.age && <span>{hit.age}</span>}
        </div>
        {place.thread && (
          <a
            href={writeRoute(route)}
            onClick={(event) => {
              event.preventDefault();
              go(route);
            }}
          >
            {place.thread}
            {place.seq === undefined ? "" : ` #${place.seq}`}
          </a>
        )}
      </div>
      <p class="entry-text">
        <Marked pieces={markWords(hit.text, words)} />
      </p>
      {source?.quote && (
        <p class="quote">
          {LABELS[source.label] ?? source.label}: “{source.quote}”
        </p>
      )}
      {hit.parts && (
        <Fold title="Why it was found" open={!held}>
          <Parts parts={hit.parts} />
        </Fold>
      )}
    </article>
  );
}

function Parts({ parts }: { parts: { [part: string]: number | string[] } }) {
  const shown = Object.keys(REASONS).flatMap((name) => {
    const value = parts[name];
    return typeof value === "number" && Math.abs(value) >= 0.005 ? [{ name, value }] : [];
  });
  const most = Math.max(1, ...shown.map((each) => Math.abs(each.value)));
  const rest = Object.entries(MEASURES).flatMap(([name, title]) => {
    const value = parts[name];
    return typeof value === "number" ? [`${title} ${value.toFixed(2)}`] : [];
  });
  return (
    <>
      <div class="parts">
        {shown.map(({ name, value }) => (
          <>
            <span title={name}>{REASONS[name]}</span>
            <span class="track">
              <span class={value < 0 ? "minus" : undefined} style={{ left: 0, width: `${(100 * Math.abs(value)) / most}%` }} />
            </span>
            <span class="number">{value.toFixed(2)}</span>
          </>
        ))}
      </div>
      <p class="note">{rest.join(" · ")}</p>
    </>
  );
}
