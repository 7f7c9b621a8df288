// What all views share: where the page is, what it shows, and what it tells.

import { effect, signal } from "@preact/signals";
import { Memory } from "./connection/connection";
import type { Session, Subject } from "./connection/http";

export type ViewName =
  "remembered" | "context" | "recall" | "conversation" | "documents" | "work" | "numbers" | "keeping";

export interface Route {
  view: ViewName;
  /** The conversation that a view is about; empty for those about all. */
  thread: string;
  query: { [name: string]: string };
}

export const VIEWS: { name: ViewName; title: string; short: string }[] = [
  { name: "remembered", title: "What I remember about you", short: "Remembered" },
  { name: "recall", title: "Search everything", short: "Search" },
  { name: "conversation", title: "Conversations", short: "Conversations" },
  { name: "documents", title: "Profile", short: "Profile" },
  { name: "context", title: "What the model sees", short: "What the model sees" },
  { name: "work", title: "Plans and agent runs", short: "Plans and runs" },
  { name: "numbers", title: "Numbers", short: "Numbers" },
  { name: "keeping", title: "Forget, erase, export", short: "Forget & export" },
];

export type Theme = "system" | "light" | "dark";

export interface Toast {
  id: number;
  text: string;
  bad: boolean;
  undo?: () => Promise<void>;
}

const THEME = "layerlore-theme";
const SHOWN_SECONDS = 5;

export const NOBODY: Subject = { tenant: "", agent: "", resource: "" };
export const memory = signal<Memory | null>(null);
export const session = signal<Session | null>(null);
export const subject = signal<Subject>(NOBODY);
export const route = signal<Route>(readRoute(location.hash));
export const toasts = signal<Toast[]>([]);
export const theme = signal<Theme>(keptTheme());
/** The theme that a host gives counts more than the person's own choice in a browser. */
export const hostTheme = signal<"" | "light" | "dark">("");

export function readRoute(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name = "", thread = ""] = path.split("/");
  const view = VIEWS.find((each) => each.name === name)?.name ?? "remembered";
  let decoded = "";
  try {
    decoded = decodeURIComponent(thread);
  } catch {
    // An address that somebody cut off names no conversation.
  }
  return { view, thread: decoded, query: Object.fromEntries(new URLSearchParams(search)) };
}

export function writeRoute(to: Partial<Route> & { view: ViewName }): string {
  const search = new URLSearchParams(to.query).toString();
  return `#/${to.view}${to.thread ? `/${encodeURIComponent(to.thread)}` : ""}${search ? `?${search}` : ""}`;
}

/** Shows another view. `quiet` keeps the place in the browser's history. */
export function go(to: Partial<Route> & { view: ViewName }, quiet = false): void {
  const whole: Route = { thread: "", query: {}, ...to };
  route.value = whole;
  // In a host the frame's address is not the page's own.
  if (memory.value?.connection.inHost) return;
  history[quiet ? "replaceState" : "pushState"](null, "", writeRoute(whole));
}

export function readAddress(): void {
  route.value = readRoute(location.hash);
}

function keptTheme(): Theme {
  try {
    const kept = localStorage.getItem(THEME);
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system";
  }
}

effect(() => {
  const chosen = hostTheme.value || (theme.value === "system" ? "" : theme.value);
  if (chosen) document.documentElement.dataset["theme"] = chosen;
  else delete document.documentElement.dataset["theme"];
});

export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  try {
    localStorage.setItem(THEME, chosen);
  } catch {
    // It counts for this page alone then.
  }
}

let lastToast = 0;

/** Says something for a few seconds; what can be undone stays until it is dismissed or three others came. */
export function say(text: string, more: { bad?: boolean; undo?: () => Promise<void> } = {}): void {
  const toast: Toast = { id: ++lastToast, text, bad: more.bad ?? false, ...(more.undo ? { undo: more.undo } : {}) };
  toasts.value = [...toasts.value.slice(-2), toast];
  if (!more.undo && !more.bad) setTimeout(() => dismiss(toast.id), SHOWN_SECONDS * 1000);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}
