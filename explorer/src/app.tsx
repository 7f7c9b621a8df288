// The frame of the page: the views and how to get to them.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { chooseAnother, enterKey, gate, host, hostContext, isAboutSeveral, leave } from "./begin";
import { Chooser } from "./parts/chooser";
import { Choice, Failure, Loading, Toasts } from "./parts/pieces";
import { VIEWS, type ViewName, chooseTheme, go, hostTheme, memory, route, session, subject, theme, writeRoute } from "./store";
import { ContextPreview } from "./views/context";
import { Conversations } from "./views/conversation";
import { Documents } from "./views/documents";
import { Keeping } from "./views/keeping";
import { Numbers } from "./views/numbers";
import { Search } from "./views/recall";
import { Remembered } from "./views/remembered";
import { Work } from "./views/work";

const SHOWN: { [name in ViewName]: () => JSX.Element } = {
  remembered: Remembered,
  context: ContextPreview,
  recall: Search,
  conversation: Conversations,
  documents: Documents,
  work: Work,
  numbers: Numbers,
  keeping: Keeping,
};

export function App(): JSX.Element {
  const open = gate.value.at === "open" && memory.value;
  return (
    <>
      {open ? <Frame /> : <Gate />}
      <Toasts />
    </>
  );
}

function Frame() {
  const { view } = route.value;
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  const searches = useRef(false);
  const title = VIEWS.find((each) => each.name === view)?.title ?? "";
  useEffect(() => {
    document.title = `${title} · layerlore`;
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    // A reader hears which view this is; the first look of a page begins at its top.
    if (first.current) first.current = false;
    else if (!searches.current || !focusSearch(main.current))
      main.current?.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
    searches.current = false;
  }, [view]);
  useEffect(() => {
    const search = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if ((event.target as HTMLElement).closest("input, textarea, select, [contenteditable]")) return;
      // A question is answered first.
      if (document.querySelector("dialog[open]")) return;
      event.preventDefault();
      if (focusSearch(main.current)) return;
      // A view without a search of its own leads to the one of everything; from a conversation, to what was said in it.
      const at = route.value;
      searches.current = true;
      go({ view: "recall", thread: at.view === "conversation" ? at.thread : "" });
    };
    addEventListener("keydown", search);
    return () => removeEventListener("keydown", search);
  }, []);
  const Shown = SHOWN[view];
  const insets = hostContext.value.safeAreaInsets;
  const about = session.value?.resource ?? subject.value.resource;
  const several = session.value && isAboutSeveral(session.value);
  return (
    <div
      class="frame"
      style={insets ? { padding: `${insets.top}px ${insets.right}px ${insets.bottom}px ${insets.left}px` } : undefined}
    >
      <div class="side">
        <div class="brand">
          layerlore {about && !several && <small title={about}>{about}</small>}
        </div>
        {several && (
          <div class="subject">
            <p>
              <strong title={about}>{about}</strong>
              <small title={subject.value.agent}>
                {subject.value.tenant && `tenant ${subject.value.tenant} · `}agent {subject.value.agent}
              </small>
            </p>
            <button type="button" onClick={chooseAnother}>
              Choose another
            </button>
          </div>
        )}
        <nav aria-label="Views">
          {VIEWS.map((each) => (
            <a
              href={writeRoute({ view: each.name })}
              aria-current={each.name === view ? "page" : undefined}
              onClick={(event) => {
                if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                event.preventDefault();
                go({ view: each.name });
              }}
            >
              {each.short}
            </a>
          ))}
        </nav>
        <div class="side-foot">
          {host.value && <FullScreen />}
          {!hostTheme.value && (
            <Choice
              label="Theme"
              value={theme.value}
              choices={[
                { value: "system", title: "Auto" },
                { value: "light", title: "Light" },
                { value: "dark", title: "Dark" },
              ]}
              onChange={chooseTheme}
            />
          )}
          {session.value && (
            <button type="button" class="quiet" onClick={() => void leave()}>
              Sign out
            </button>
          )}
          <p class="note">Press / to search.</p>
        </div>
      </div>
      <main ref={main}>
        <Shown key={view} />
      </main>
    </div>
  );
}

/** Puts the cursor into the view's search. Returns whether it has one. */
function focusSearch(view: HTMLElement | null): boolean {
  const field = view?.querySelector<HTMLInputElement>("[data-search]");
  field?.focus();
  field?.select();
  return Boolean(field);
}

function FullScreen() {
  const { availableDisplayModes = [], displayMode } = hostContext.value;
  if (!availableDisplayModes.includes("fullscreen")) return null;
  const other = displayMode === "fullscreen" ? "inline" : "fullscreen";
  return (
    <button type="button" onClick={() => void host.value?.request("ui/request-display-mode", { mode: other })}>
      {other === "fullscreen" ? "Full screen" : "Smaller"}
    </button>
  );
}

function Gate() {
  const { at, error } = gate.value;
  return (
    <main class="sign-in">
      <div class={at === "whom" ? "card stack wide" : "card stack"}>
        <h1>{at === "whom" ? "Whose memory?" : "layerlore"}</h1>
        {error && <Failure error={error} />}
        {at === "starting" && <Loading what="Opening the memory" />}
        {at === "key" && <KeyForm />}
        {at === "link" && (
          <p>
            This page opens with a link that works once. Run <code>layerlore explore</code> again to get one.
          </p>
        )}
        {at === "whom" && <Chooser />}
        {at === "closed" && <p>The host has closed this page.</p>}
      </div>
    </main>
  );
}

function KeyForm() {
  const [key, setKey] = useState("");
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (key.trim()) void enterKey(key.trim());
      }}
    >
      <p class="note">
        Sign in with a key of this server. On its machine <code>layerlore doctor</code> says where the key is, and{" "}
        <code>layerlore explore</code> opens this page without one.
      </p>
      <div class="field">
        <label for="key">Key</label>
        <input
          id="key"
          type="password"
          autocomplete="current-password"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </div>
      <button type="submit" class="primary" disabled={!key.trim()}>
        Sign in
      </button>
    </form>
  );
}
