// Forgetting everything about something, as `layerlore forget` does it: a look at what would go, a question, and a way back.

import { useEffect, useState } from "preact/hooks";
import { type Act, type Memory, type Undone, undo } from "../connection/connection";
import { nameHitKind } from "../names";
import { useAct, useAsked } from "../parts/asking";
import { Badge, Failure, Loading, Question } from "../parts/pieces";
import { go, memory, route } from "../store";
import { showCount, showDay, showMoment } from "../text";

interface Item {
  kind: "entry" | "message" | "observation" | "line";
  text: string;
  thread_id?: string;
  speaker?: string;
  day?: string;
  other_half?: "call" | "result";
  /** In a project: whose memory it is in. */
  whose?: string;
}

interface KeptPlace {
  kind: string;
  thread_id: string;
  text?: string;
}

interface Preview {
  items: Item[];
  /** How many others are about it: they are shown once these are gone. */
  more_items?: number;
  kept: KeptPlace[];
  more_kept?: number;
  /** For how many days it can be undone; 0 is not at all. */
  undo_days: number;
  confirm?: string;
}

interface Forgotten {
  entries?: number;
  messages?: number;
  observations?: number;
  lines?: number;
  titles?: number;
  kept: KeptPlace[];
  erased_after?: string;
  undo?: string;
}

/** What was forgotten, in a project of two memories; how much more is about it by now. */
interface Done {
  about: string;
  forgotten: Forgotten[];
  more: number;
}

export function ForgetBox({ onChanged }: { onChanged: () => void }) {
  const from = memory.value as Memory;
  const asked = route.value.query["about"] ?? "";
  const [about, setAbout] = useState(asked);
  const [preview, setPreview] = useState<Preview | null>(null);
  const [done, setDone] = useState<Done | null>(null);
  const [back, setBack] = useState("");
  const [busy, act] = useAct();
  const look = (what: string) => from.call<Preview>("forget", { query: what, format: "json" });
  const show = (what: string) =>
    act(async () => {
      setAbout(what);
      setDone(null);
      setBack("");
      setPreview(await look(what));
    });
  useEffect(() => {
    if (asked) show(asked);
  }, []);
  const leave = () => {
    setPreview(null);
    // A page that is loaded again does not ask the same again.
    if (route.value.query["about"]) go({ view: "keeping" }, true);
  };
  const forget = (confirm: string) =>
    act(async () => {
      const what = about.trim();
      const { forgotten } = await from.call<{ forgotten: Forgotten[] }>("forget", { confirm, format: "json" });
      leave();
      onChanged();
      // One preview shows a limited number of notes and messages.
      const left = await look(what);
      setDone({ about: what, forgotten, more: left.items.length });
    });
  const bringBack = ({ forgotten }: Done) =>
    act(async () => {
      const undone: Undone[] = [];
      for (const each of forgotten) if (each.undo) undone.push(await undo(from, each));
      setDone(null);
      setBack(describeUndone(undone));
      onChanged();
    });
  if (!from.has("forget"))
    return (
      <section class="card stack" aria-label="Forget">
        <h2>Forget everything about …</h2>
        <p class="note">
          Forgetting needs the right <code>forget</code>, which this key does not have.
        </p>
      </section>
    );
  return (
    <section class="card stack" aria-label="Forget">
      <h2>
        <label for="forget-about">Forget everything about …</label>
      </h2>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          if (about.trim()) show(about.trim());
        }}
      >
        <input
          id="forget-about"
          class="grow"
          type="text"
          placeholder="Such as: my knee"
          value={about}
          autocomplete="off"
          onInput={(event) => setAbout(event.currentTarget.value)}
        />
        <button type="submit" class="danger" disabled={busy || !about.trim()}>
          Show what would go
        </button>
      </form>
      <p class="note">You see first what would go: notes, messages and lines of the profile. Nothing goes before you say so.</p>
      <div role="status" class="stack">
        {preview && !preview.confirm && (
          <>
            <p>Nothing that is remembered is about this.</p>
            <Kept places={preview.kept} more={preview.more_kept ?? 0} />
          </>
        )}
        {done && <Outcome done={done} busy={busy} onUndo={() => bringBack(done)} onMore={() => show(done.about)} />}
        {back && <p>{back}</p>}
      </div>
      {preview?.confirm && (
        <Question
          title={`Forget everything about “${about.trim()}”?`}
          yes="Forget all of it"
          danger
          ready={!busy}
          onYes={() => forget(preview.confirm ?? "")}
          onNo={leave}
        >
          <p>
            {preview.undo_days
              ? `This would go at once. You can bring it back for ${showCount(preview.undo_days, "day")}; then it is erased for good.`
              : "This would be erased at once, and you cannot bring it back."}
          </p>
          <ul class="items">
            {preview.items.map((item) => (
              <li>
                <ItemShown item={item} />
              </li>
            ))}
            {preview.more_items && <li>and {preview.more_items} more, which you are asked about afterwards</li>}
          </ul>
          <Kept places={preview.kept} more={preview.more_kept ?? 0} />
        </Question>
      )}
    </section>
  );
}

function ItemShown({ item }: { item: Item }) {
  const place = [item.whose, item.thread_id && `in ${item.thread_id}`, item.day && showDay(item.day)].filter(Boolean);
  return (
    <>
      <Badge tone={item.kind === "entry" ? "accent" : "plain"}>{nameItem(item)}</Badge> <span class="text">{item.text}</span>{" "}
      <span class="meta">
        {place.join(" · ")}
        {item.other_half && ` · with the tool's ${item.other_half}`}
      </span>
    </>
  );
}

function nameItem(item: Item): string {
  if (item.kind === "message") return item.speaker ?? "message";
  if (item.kind === "line") return item.thread_id ? "conversation memory" : "profile";
  return nameHitKind(item.kind);
}

/** Places that are about the same and stay. */
function Kept({ places, more }: { places: KeptPlace[]; more: number }) {
  if (!places.length) return null;
  return (
    <div>
      <p>This stays, though it is about it too. To remove it, delete its conversation:</p>
      <ul class="items">
        {places.map((place) => (
          <li>
            <Badge>{place.kind}</Badge> {place.text && <span class="text">{place.text}</span>}{" "}
            <button type="button" class="link" onClick={() => go({ view: "conversation", thread: place.thread_id })}>
              {place.thread_id}
            </button>
          </li>
        ))}
        {more > 0 && <li>and {more} more</li>}
      </ul>
    </div>
  );
}

interface OutcomeProps {
  done: Done;
  busy: boolean;
  onUndo: () => void;
  onMore: () => void;
}

function Outcome({ done, busy, onUndo, onMore }: OutcomeProps) {
  const sum = (kind: "entries" | "messages" | "observations" | "lines" | "titles") =>
    done.forgotten.reduce((all, each) => all + (each[kind] ?? 0), 0);
  const notes = sum("observations");
  const counts = [
    [sum("entries"), "note"],
    [sum("messages"), "message"],
    [notes, "note on messages", "notes on messages"],
    [sum("lines"), "line of a profile", "lines of profiles"],
    [sum("titles"), "title"],
  ] as const;
  const said = counts.flatMap(([count, one, many]) => (count ? [showCount(count, one, many ?? `${one}s`)] : []));
  const erased = done.forgotten.find((each) => each.erased_after)?.erased_after;
  const canUndo = done.forgotten.some((each) => each.undo);
  return (
    <>
      <p>
        {said.length ? `Forgotten: ${said.join(", ")}.` : "Nothing was left to forget."}
        {erased && (canUndo ? ` You can bring it back until ${showDay(erased)}.` : ` It is erased for good after ${showDay(erased)}.`)}
        {said.length > 0 && !erased && " It is erased for good."}
        {notes > 0 && " Notes on messages do not come back; new ones are made if there is need."}
      </p>
      <div class="row">
        {canUndo && (
          <button type="button" disabled={busy} onClick={onUndo}>
            Bring it back
          </button>
        )}
        {done.more > 0 && (
          <button type="button" class="danger" disabled={busy} onClick={onMore}>
            Show {done.more} more about it
          </button>
        )}
      </div>
      <Kept places={done.forgotten.flatMap((each) => each.kept)} more={0} />
    </>
  );
}

function describeUndone(undone: Undone[]): string {
  const isBack = undone.some((each) => each.messages || each.entries || each.documents || each.plans);
  const left = undone.flatMap((each) => each.left ?? []);
  return [isBack ? "It is back." : "It was so already.", ...left.map((why) => `Left as it is: ${why}`)].join(" ");
}

/** What can still be undone, for those who dismissed the button that does it. */
export function Undoable({ round }: { round: number }) {
  const from = memory.value as Memory;
  const [back, setBack] = useState("");
  const [busy, act] = useAct();
  const asked = useAsked(from.has("undo") ? (at, signal) => at.call<{ acts: Act[] }>("undo", {}, signal) : null, [round]);
  if (!from.has("undo")) return null;
  const acts = asked.value?.acts ?? [];
  return (
    <section class="card stack" aria-label="What can be undone">
      <h2>What can be undone</h2>
      {asked.error && <Failure error={asked.error} again={asked.again} />}
      {!asked.value && asked.loading && <Loading what="Reading what was done" />}
      {asked.value && !acts.length && <p class="note">Nothing was removed or replaced that could come back.</p>}
      <p class="meta" role="status">
        {back}
      </p>
      {acts.length > 0 && (
        <ul class="items low">
          {acts.map((each) => (
            <li class="row" key={each.undo_id}>
              <span class="grow">
                {each.what}{" "}
                <span class="meta">
                  {showMoment(each.at)} · until {showDay(each.until)}
                </span>
              </span>
              <button
                type="button"
                disabled={busy}
                onClick={() =>
                  act(async () => {
                    setBack(describeUndone([await undo(from, { undo: each.undo_id })]));
                    asked.again();
                  })
                }
              >
                Undo
              </button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
