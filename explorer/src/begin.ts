// The ways to a server: a host's frame, a link that signs in once, a session that is kept, or a key that a person types.

import { signal } from "@preact/signals";
import { Memory, describe } from "./connection/connection";
import { type HostContext, HostConnection } from "./connection/host";
import {
  HttpConnection,
  type Session,
  type Subject,
  askSignIn,
  keepSubject,
  keptSession,
  keptSubject,
  signIn,
  signOut,
} from "./connection/http";
import { NOBODY, go, hostTheme, memory, readAddress, session, subject } from "./store";

/** What the page waits for before there is a memory to show. */
export const gate = signal<{ at: "starting" | "key" | "link" | "whom" | "open" | "closed"; error: string }>({
  at: "starting",
  error: "",
});
/** The host, where one shows the page. */
export const host = signal<HostConnection | null>(null);
export const hostContext = signal<HostContext>({});

export async function begin(): Promise<void> {
  if (window.parent !== window) {
    await beginInHost();
    return;
  }
  const once = /[#&]once=([^&]+)/.exec(location.hash)?.[1];
  if (once) {
    // The word is good once: nothing of it stays in the address or the history.
    history.replaceState(null, "", location.pathname);
    readAddress();
    try {
      await open(await signIn({ once: decodeURIComponent(once) }));
    } catch (error) {
      gate.value = { at: "link", error: describe(error) };
    }
    return;
  }
  const kept = keptSession();
  if (kept) {
    await open(kept);
    return;
  }
  await ask("");
}

export async function enterKey(key: string): Promise<void> {
  try {
    await open(await signIn({ key }));
  } catch (error) {
    gate.value = { at: "key", error: describe(error) };
  }
}

export const isAboutSeveral = (known: Session): boolean =>
  Boolean(known.every_tenant) || known.resource === null || (known.agents?.length ?? 2) > 1;

/** Whom a session that may be about several is about. */
export async function chooseSubject(chosen: Subject): Promise<void> {
  subject.value = chosen;
  keepSubject(chosen);
  await enter();
}

export function chooseAnother(): void {
  memory.value = null;
  subject.value = NOBODY;
  keepSubject(null);
  // A conversation of the one is none of the other.
  go({ view: "remembered" }, true);
  gate.value = { at: "whom", error: "" };
}

/** A tenant, before it is chosen whose memory the page is about; "": that of the session. */
export const lookAround = (tenant: string): Memory => connect(() => ({ ...NOBODY, tenant }));

export async function leave(): Promise<void> {
  await signOut();
  await ask("");
}

/** Back to the door, which the server says is a key's or a link's. */
async function ask(error: string): Promise<void> {
  memory.value = null;
  session.value = null;
  subject.value = NOBODY;
  try {
    const way = await askSignIn();
    if (way === "nothing") await open(null);
    else gate.value = { at: way, error };
  } catch (failure) {
    gate.value = { at: "key", error: error || describe(failure) };
  }
}

async function open(known: Session | null): Promise<void> {
  session.value = known;
  if (known && isAboutSeveral(known)) {
    const kept = keptSubject();
    if (!kept) {
      gate.value = { at: "whom", error: "" };
      return;
    }
    subject.value = kept;
  }
  await enter();
}

function connect(about: () => Subject): Memory {
  const ended = () => void ask("The session is over: sign in again.");
  return new Memory(new HttpConnection(session.value?.token ?? "", about, ended));
}

async function enter(): Promise<void> {
  const opened = connect(() => subject.value);
  // What is listed hides what this caller may not do; the first view does not wait for it.
  void opened.listTools().catch(() => undefined);
  memory.value = opened;
  gate.value = { at: "open", error: "" };
}

async function beginInHost(): Promise<void> {
  const connection = new HostConnection(window.parent, {
    context: (context) => {
      hostContext.value = { ...hostContext.value, ...context };
      hostTheme.value = hostContext.value.theme ?? "";
    },
    input: (given) => {
      // The model had the page shown for a conversation.
      const thread = given["thread_id"];
      if (typeof thread === "string" && thread) go({ view: "conversation", thread });
    },
    teardown: () => {
      memory.value = null;
      gate.value = { at: "closed", error: "" };
    },
  });
  try {
    await connection.begin();
  } catch (error) {
    gate.value = { at: "closed", error: describe(error) };
    return;
  }
  host.value = connection;
  memory.value = new Memory(connection);
  gate.value = { at: "open", error: "" };
  const tell = () => connection.notify("ui/notifications/size-changed", { height: 720 });
  tell();
}
