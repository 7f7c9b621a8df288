// Streamable HTTP to the server that gave out the page, in the protocol of 2026-07-28: each request stands alone.

import { type Arguments, type Connection, Refused, isAbort } from "./connection";

const VERSION = "2026-07-28";
const PAGE_HEADER = "Layerlore-Explorer";
const TENANT_HEADER = "Layerlore-Tenant";
const KEPT = "layerlore-explorer";
const KEPT_SUBJECT = "layerlore-explorer-subject";
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;

/** Who has signed in, as the server says it. `agents` and `resource` are null where any may be chosen. */
export interface Session {
  token: string;
  name: string;
  tenant: string;
  agents: string[] | null;
  resource: string | null;
  rights: string[];
  seconds: number;
  /** The whole database is looked at, by whoever owns it: each request says which tenant it means. */
  every_tenant?: boolean;
}

/** Whom the page is about, where its session may be about several. */
export interface Subject {
  tenant: string;
  agent: string;
  resource: string;
}

export type SignIn = "key" | "link" | "nothing";

interface Reply {
  id?: number;
  method?: string;
  result?: unknown;
  error?: { code: number; message: string; data?: unknown };
  params?: { uri?: string };
}

export function keptSession(): Session | null {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "null") as Session | null;
  } catch {
    return null;
  }
}

/** Whom a page that is loaded again is about. */
export function keptSubject(): Subject | null {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT_SUBJECT) ?? "null") as Subject | null;
  } catch {
    return null;
  }
}

export function keepSubject(subject: Subject | null): void {
  try {
    if (subject) sessionStorage.setItem(KEPT_SUBJECT, JSON.stringify(subject));
    else sessionStorage.removeItem(KEPT_SUBJECT);
  } catch {
    // Without storage it is chosen anew.
  }
}

function keep(session: Session | null): void {
  keepSubject(null);
  try {
    if (session) sessionStorage.setItem(KEPT, JSON.stringify(session));
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Without storage the session ends with the page.
  }
}

export async function askSignIn(): Promise<SignIn> {
  const answer = await fetch("/explore/session", { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Refused(`the server answered ${answer.status}`, "away");
  return ((await answer.json()) as { sign_in: SignIn }).sign_in;
}

/** Raises Refused for a wrong key, or a link that was used. */
export async function signIn(credential: { key: string } | { once: string }): Promise<Session> {
  const answer = await fetch("/explore/session", {
    method: "POST",
    headers: { "Content-Type": "application/json", [PAGE_HEADER]: "1" },
    body: JSON.stringify(credential),
  });
  const said = (await answer.json().catch(() => ({}))) as { error?: string } & Partial<Session>;
  // A word such as `invalid_token` is for programs; a sentence is for people.
  if (!answer.ok) throw new Refused(said.error?.includes(" ") ? said.error : refusal(answer.status), "session");
  const session = said as Session;
  keep(session);
  return session;
}

export async function signOut(): Promise<void> {
  keep(null);
  await fetch("/explore/session", { method: "DELETE", headers: { [PAGE_HEADER]: "1" } }).catch(() => undefined);
}

const refusal = (status: number): string =>
  ({
    401: "This key is not known here, or no longer.",
    403: "this page may not do that here",
    413: "that is too large",
    429: "too many requests; wait a moment",
    503: "the server is not ready; try again in a moment",
  })[status] ?? `the server answered ${status}`;

export class HttpConnection implements Connection {
  readonly inHost = false;
  private last = 0;

  /** `token` is empty where no credential is needed; `ended` is told when the session is over. */
  constructor(
    private readonly token: string,
    private readonly subject: () => Subject,
    private readonly ended: () => void,
  ) {}

  async request(method: string, params: Arguments, signal?: AbortSignal): Promise<unknown> {
    const id = ++this.last;
    const answer = await this.send(id, method, params, signal);
    if (answer.headers.get("content-type")?.startsWith("text/event-stream")) {
      for await (const reply of events(answer)) if (reply.id === id) return settle(reply);
      throw new Refused("the server ended its answer too early", "away");
    }
    return settle((await answer.json()) as Reply);
  }

  watch(uris: string[], told: (uri: string) => void): () => void {
    const stop = new AbortController();
    void this.listen(uris, told, stop.signal);
    return () => stop.abort();
  }

  private async listen(uris: string[], told: (uri: string) => void, signal: AbortSignal): Promise<void> {
    for (let pause = FIRST_PAUSE; !signal.aborted; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      try {
        const params = { notifications: { resourceSubscriptions: uris } };
        const answer = await this.send(++this.last, "subscriptions/listen", params, signal);
        for await (const reply of events(answer)) {
          pause = FIRST_PAUSE;
          if (reply.method === "notifications/resources/updated" && reply.params?.uri) told(reply.params.uri);
        }
      } catch (error) {
        if (isAbort(error) || (error instanceof Refused && error.kind !== "away")) return;
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  private async send(id: number, method: string, given: Arguments, signal?: AbortSignal): Promise<Response> {
    const named = (given["name"] ?? given["uri"]) as string | undefined;
    const { tenant, agent, resource } = this.subject();
    const params = {
      ...given,
      _meta: {
        ...(given["_meta"] as Arguments | undefined),
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": { name: "layerlore-explorer", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
        ...(agent ? { "layerlore/agent": agent } : {}),
        ...(resource ? { "layerlore/resource": resource } : {}),
      },
    };
    let answer: Response;
    try {
      answer = await fetch("/mcp", {
        method: "POST",
        signal: signal ?? null,
        headers: {
          "Content-Type": "application/json",
          Accept: "application/json, text/event-stream",
          "MCP-Protocol-Version": VERSION,
          "Mcp-Method": method,
          ...(named ? { "Mcp-Name": headerText(named) } : {}),
          ...(tenant ? { [TENANT_HEADER]: encodeURIComponent(tenant) } : {}),
          ...(this.token ? { [PAGE_HEADER]: this.token } : {}),
        },
        body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
      });
    } catch (error) {
      if (isAbort(error)) throw error;
      throw new Refused("the server does not answer: is it still running?", "away");
    }
    if (answer.ok) return answer;
    if (answer.status === 401) {
      keep(null);
      this.ended();
      throw new Refused("the session is over: sign in again", "session");
    }
    const said = (await answer.json().catch(() => null)) as Reply | null;
    throw new Refused(said?.error?.message ?? refusal(answer.status), answer.status === 503 ? "away" : "protocol");
  }
}

// Headers hold ASCII; what is more goes as the protocol says, in base64.
function headerText(text: string): string {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text)) return text;
  const bytes = new TextEncoder().encode(text);
  return `=?base64?${btoa(String.fromCharCode(...bytes))}?=`;
}

function settle(reply: Reply): unknown {
  if (reply.error) throw new Refused(reply.error.message);
  return reply.result;
}

/** The messages of a stream of server-sent events. */
async function* events(answer: Response): AsyncGenerator<Reply> {
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = block
        .split(/\r?\n/)
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).replace(/^ /, ""));
      if (data.length) yield JSON.parse(data.join("\n")) as Reply;
    }
  }
}
