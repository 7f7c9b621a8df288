// Choosing whose memory the page is about, where whoever signed in may look at several.

import { useEffect, useMemo, useState } from "preact/hooks";
import { chooseSubject, leave, lookAround } from "../begin";
import { session } from "../store";
import { showCount, showDay } from "../text";
import { awaitAnswer, useSettled } from "./asking";
import { Empty, Failure, Loading, TextField } from "./pieces";

const AS_TYPED = 250;

interface Row {
  agent: string;
  resource: string;
  conversations: number;
  messages: number;
  entries: number;
  last_at?: string;
}

interface Pages<T> {
  rows: T[];
  loading: boolean;
  error: string;
  /** Where the list goes on; "" at its end. */
  next: string;
  more: () => void;
  again: () => void;
}

/** A list that the server gives page by page, anew whenever one of `by` changes. */
function usePages<T>(read: (cursor: string, signal: AbortSignal) => Promise<{ rows: T[]; next: string }>, by: unknown[]): Pages<T> {
  const [known, setKnown] = useState<{ rows: T[]; next: string }>({ rows: [], next: "" });
  const [loading, setLoading] = useState(true);
  const [error, setError] = useState("");
  const [cursor, setCursor] = useState("");
  const [round, setRound] = useState(0);
  const [key, setKey] = useState(JSON.stringify(by));
  const wanted = JSON.stringify(by);
  if (key !== wanted) {
    setKey(wanted);
    setCursor("");
  }
  useEffect(() => {
    setLoading(true);
    return awaitAnswer(
      (signal) => read(cursor, signal),
      (page) => setKnown((last) => ({ rows: cursor ? [...last.rows, ...page.rows] : page.rows, next: page.next })),
      (why) => {
        setError(why);
        setLoading(false);
      },
    );
  }, [key, cursor, round]);
  return {
    ...known,
    loading,
    error,
    more: () => setCursor(known.next),
    again: () => setRound((last) => last + 1),
  };
}

export function Chooser() {
  const known = session.value;
  const mayList = known?.rights.includes("admin") && known.rights.includes("read");
  const [tenant, setTenant] = useState(known?.every_tenant ? "" : (known?.tenant ?? ""));
  if (!mayList) return <SubjectForm />;
  return (
    <div class="stack">
      <p class="note">
        You look at memories of others as an operator. Each look is kept in the journal.
      </p>
      {known?.every_tenant && tenant === "" && <Tenants onPick={setTenant} />}
      {tenant !== "" && (
        <>
          <div class="row">
            <h2>Memories of {tenant}</h2>
            {known?.every_tenant && (
              <button type="button" class="link" onClick={() => setTenant("")}>
                another tenant
              </button>
            )}
          </div>
          <Memories key={tenant} tenant={tenant} />
        </>
      )}
      <button type="button" class="quiet" onClick={() => void leave()}>
        Sign out
      </button>
    </div>
  );
}

function Tenants({ onPick }: { onPick: (tenant: string) => void }) {
  const [query, setQuery] = useState("");
  const sought = useSettled(query.trim(), AS_TYPED);
  const from = useMemo(() => lookAround(""), []);
  const pages = usePages<string>(
    async (cursor, signal) => {
      const given = { query: sought, ...(cursor ? { cursor } : {}) };
      const page = await from.call<{ tenants: string[]; next_cursor?: string }>("explore_tenants", given, signal);
      return { rows: page.tenants, next: page.next_cursor ?? "" };
    },
    [sought],
  );
  return (
    <>
      <TextField search label="Search the tenants" placeholder="Search as you type" value={query} onInput={setQuery} />
      <List pages={pages} label="Tenants" none={sought ? "No tenant has this name" : "No memory is kept yet"}>
        {(name) => (
          <button type="button" class="picked" onClick={() => onPick(name)}>
            <span class="title">{name}</span>
          </button>
        )}
      </List>
    </>
  );
}

function Memories({ tenant }: { tenant: string }) {
  const [query, setQuery] = useState("");
  const sought = useSettled(query.trim(), AS_TYPED);
  const from = useMemo(() => lookAround(tenant), [tenant]);
  const pages = usePages<Row>(
    async (cursor, signal) => {
      const given = { query: sought, ...(cursor ? { cursor } : {}) };
      const page = await from.call<{ memories: Row[]; next_cursor?: string }>("explore_memories", given, signal);
      return { rows: page.memories, next: page.next_cursor ?? "" };
    },
    [sought],
  );
  return (
    <>
      <TextField
        search
        label="Search by user or agent"
        placeholder="Search as you type"
        value={query}
        onInput={setQuery}
      />
      <List pages={pages} label="Memories" none={sought ? "No user and no agent has this name" : "No memory is kept yet"}>
        {(row) => (
          <button
            type="button"
            class="picked"
            onClick={() => void chooseSubject({ tenant: session.value?.every_tenant ? tenant : "", agent: row.agent, resource: row.resource })}
          >
            <span class="title">{row.resource}</span>
            <span class="meta">
              with the agent {row.agent} · {showCount(row.conversations, "conversation")} · {showCount(row.messages, "message")} ·{" "}
              {showCount(row.entries, "note")}
              {row.last_at && ` · last on ${showDay(row.last_at)}`}
            </span>
          </button>
        )}
      </List>
    </>
  );
}

interface ListProps<T> {
  pages: Pages<T>;
  label: string;
  none: string;
  children: (row: T) => preact.ComponentChildren;
}

function List<T>({ pages, label, none, children }: ListProps<T>) {
  return (
    <>
      {pages.error && <Failure error={pages.error} again={pages.again} />}
      {pages.rows.length > 0 && (
        <ul class="chooser" aria-label={label}>
          {pages.rows.map((row) => (
            <li>{children(row)}</li>
          ))}
          {pages.next && !pages.loading && (
            <li>
              <button type="button" class="link" onClick={pages.more}>
                Show more
              </button>
            </li>
          )}
        </ul>
      )}
      {pages.loading && <Loading what="Looking" />}
      {!pages.loading && !pages.error && pages.rows.length === 0 && (
        <Empty title={none}>
          {pages.next && (
            <button type="button" class="link" onClick={pages.more}>
              Look further
            </button>
          )}
        </Empty>
      )}
    </>
  );
}

/** For a key that may look at several memories and not list them: whoever knows a name types it. */
function SubjectForm() {
  const known = session.value;
  const [agent, setAgent] = useState(known?.agents?.[0] ?? "");
  const [resource, setResource] = useState(known?.resource ?? "");
  const ready = Boolean((known?.resource || resource.trim()) && (known?.agents?.length === 1 || agent.trim()));
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (ready) void chooseSubject({ tenant: "", agent: agent.trim(), resource: resource.trim() });
      }}
    >
      <p class="note">
        This key serves several memories. Whose is it to be? A list of them takes a key with the right <code>admin</code>.
      </p>
      {known?.agents?.length !== 1 && (
        <TextField label="Agent" value={agent} onInput={setAgent} list={known?.agents ?? []} />
      )}
      {known?.resource === null && <TextField label="User" value={resource} onInput={setResource} />}
      <button type="submit" class="primary" disabled={!ready}>
        Open
      </button>
    </form>
  );
}
