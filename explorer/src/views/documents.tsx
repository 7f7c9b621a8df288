// The documents that an agent keeps current, the user's profile and a conversation's session memory: versions, what changed
// from one to the next, and a way back.

import { useEffect, useMemo, useState } from "preact/hooks";
import { nameChange } from "../names";
import { type Memory, undo } from "../connection/connection";
import { useAct, useAsked, useWatched } from "../parts/asking";
import { Choice, Empty, Failure, Head, Loading, Question, Source } from "../parts/pieces";
import { ThreadField } from "../parts/threads";
import { go, memory, route, say } from "../store";
import { compareLines, showJson, showMoment } from "../text";

interface Version {
  version: number;
  change: string;
  changed_at: string;
  changed_by?: string;
  tool?: string;
  /** The act whose undo brings this version back. */
  undo?: string;
}

interface Document {
  content: string | object;
  version: number;
  versions?: Version[];
}

export function Documents() {
  const { thread, query } = route.value;
  const ofThread = query["of"] === "thread" || Boolean(thread);
  return (
    <div class="view">
      <Head title="Profile" note="What an assistant keeps in mind. Each change is a version, and each version can come back.">
        <Choice
          label="Which document"
          value={ofThread ? "thread" : "resource"}
          choices={[
            { value: "resource", title: "About you" },
            { value: "thread", title: "About one conversation" },
          ]}
          onChange={(scope) => go({ view: "documents", query: scope === "thread" ? { of: "thread" } : {} }, true)}
        />
      </Head>
      {ofThread && (
        <ThreadField value={thread} onPick={(picked) => go({ view: "documents", thread: picked, query: { of: "thread" } })} />
      )}
      {ofThread && !thread ? (
        <Empty title="Choose a conversation">
          <p>An assistant keeps a page of its own for each conversation.</p>
        </Empty>
      ) : (
        <DocumentShown key={`${ofThread} ${thread}`} scope={ofThread ? "thread" : "resource"} thread={thread} />
      )}
    </div>
  );
}

function DocumentShown({ scope, thread }: { scope: "thread" | "resource"; thread: string }) {
  const from = memory.value as Memory;
  const place = { scope, ...(scope === "thread" ? { thread_id: thread } : {}) };
  const [picked, setPicked] = useState(0);
  const [asking, setAsking] = useState<"" | "restore" | "clear">("");
  const [shape, setShape] = useState<"changes" | "text">("changes");
  const [busy, act] = useAct();
  const read = (version: number, at: Memory, signal: AbortSignal) =>
    at.call<Document>("get_working_memory", { ...place, format: "json", ...(version ? { version } : {}) }, signal);
  const newest = useAsked((at, signal) => read(0, at, signal), [scope, thread]);
  const versions = useMemo(() => [...(newest.value?.versions ?? [])].sort((one, other) => other.version - one.version), [newest.value]);
  const version = picked || newest.value?.version || 0;
  const before = versions.find((each) => each.version < version)?.version ?? 0;
  const shown = useAsked(version ? (at, signal) => read(version, at, signal) : null, [version, scope, thread]);
  const older = useAsked(before ? (at, signal) => read(before, at, signal) : null, [before, scope, thread]);
  useEffect(() => setPicked(0), [newest.value?.version]);
  useWatched([scope === "resource" ? "memory://profile" : `memory://threads/${encodeURIComponent(thread)}/session-memory`], newest.again);
  const finish = (said: string, done: { undo?: string }) => {
    setAsking("");
    newest.again();
    if (!done.undo) return say(said);
    say(said, {
      undo: async () => {
        await undo(from, done);
        newest.again();
      },
    });
  };
  if (newest.error) return <Failure error={newest.error} again={newest.again} />;
  if (!newest.value) return <Loading what="Reading it" />;
  const current = newest.value.version;
  if (!current || !versions.length)
    return (
      <Empty title="Nothing was written yet">
        <p>An assistant writes here what it must have in mind every time.</p>
      </Empty>
    );
  const text = asText(shown.value);
  const wayBack = versions.find((each) => each.version === version)?.undo;
  return (
    <div class="split">
      <nav class="card" aria-label="Versions, newest first">
        {versions.map((each) => (
          <button
            type="button"
            class="picked"
            aria-current={each.version === version ? "true" : undefined}
            onClick={() => setPicked(each.version)}
          >
            <span class="title">
              Version {each.version} {each.version === current && "· current"}
            </span>
            <span class="meta">
              {nameChange(each.change)} · {showMoment(each.changed_at)} {each.changed_by && `· ${each.changed_by}`}
            </span>
          </button>
        ))}
      </nav>
      <section class="card" aria-label={`Version ${version}`}>
        <div class="card-head">
          <h2>Version {version}</h2>
          <div class="row">
            <Choice
              label="How it is shown"
              value={shape}
              choices={[
                { value: "changes", title: "Changes" },
                { value: "text", title: "Text" },
              ]}
              onChange={setShape}
            />
            {version !== current ? (
              <button
                type="button"
                disabled={busy || !wayBack}
                title={wayBack ? "" : "This version cannot come back: it is too old, or was imported"}
                onClick={() => setAsking("restore")}
              >
                Bring this back
              </button>
            ) : (
              <button type="button" class="danger" disabled={busy || !text.trim()} onClick={() => setAsking("clear")}>
                {scope === "resource" ? "Empty the profile" : "Empty this page"}
              </button>
            )}
          </div>
        </div>
        {shown.error ? (
          <Failure error={shown.error} again={shown.again} />
        ) : !shown.value || shown.loading || older.loading ? (
          <Loading what="Reading this version" />
        ) : shape === "text" ? (
          <Source text={text || "(empty)"} label={`Version ${version}`} />
        ) : (
          <>
            <p class="note">{before ? `What changed since version ${before}` : "The first version that is kept"}</p>
            <Changes before={before ? asText(older.value) : ""} after={text} />
          </>
        )}
      </section>
      {asking === "restore" && (
        <Question
          title={`Bring back version ${version}?`}
          yes="Bring back"
          ready={!busy}
          onYes={() =>
            act(async () => {
              const done = await undo(from, { ...(wayBack ? { undo: wayBack } : {}) }, true);
              finish(`Version ${version} is back.`, done);
            })
          }
          onNo={() => setAsking("")}
        >
          <p>It becomes the newest version. The others stay as they are.</p>
        </Question>
      )}
      {asking === "clear" && (
        <Question
          title={scope === "resource" ? "Empty the profile?" : "Empty this page?"}
          yes="Empty it"
          danger
          ready={!busy}
          onYes={() =>
            act(async () => {
              finish("Emptied.", await from.call<{ undo?: string }>("clear_working_memory", place));
            })
          }
          onNo={() => setAsking("")}
        >
          <p>Its versions stay for as long as deleted things are kept, and any of them can come back.</p>
        </Question>
      )}
    </div>
  );
}

const asText = (document: Document | undefined): string => (document?.content ? showJson(document.content) : "");

function Changes({ before, after }: { before: string; after: string }) {
  const lines = useMemo(() => compareLines(before, after).filter((line) => line.text || before || after), [before, after]);
  const said = { added: "added", removed: "removed", same: "" };
  const sign = { added: "+ ", removed: "− ", same: "  " };
  return (
    <div class="diff" tabIndex={0} role="region" aria-label="Changes">
      {lines.map((line) => (
        <div class={line.kind}>
          {said[line.kind] && <span class="unseen">{said[line.kind]}: </span>}
          <span aria-hidden="true">{sign[line.kind]}</span>
          {line.text}
        </div>
      ))}
    </div>
  );
}
