// Small pieces that every view uses.

import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { dismiss, say, toasts } from "../store";
import { describe } from "../connection/connection";
import type { Piece } from "../text";

export function Marked({ pieces }: { pieces: Piece[] }): JSX.Element {
  return <>{pieces.map((piece) => (piece.marked ? <mark>{piece.text}</mark> : piece.text))}</>;
}

export function Badge({ children, tone = "plain", title }: { children: ComponentChildren; tone?: string; title?: string }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

/** Nothing is there: why, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <div>{children}</div>}
    </div>
  );
}

export function Failure({ error, again }: { error: string; again?: () => void }) {
  return (
    <div class="failure" role="alert">
      <p>{error}</p>
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <p class="loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {what} …
    </p>
  );
}

export function Head({ title, note, children }: { title: string; note?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="view-head">
      <div>
        <h1 tabIndex={-1}>{title}</h1>
        {note && <p class="note">{note}</p>}
      </div>
      {children && <div class="view-tools">{children}</div>}
    </header>
  );
}

interface FieldProps {
  label: string;
  value: string;
  onInput: (value: string) => void;
  placeholder?: string;
  search?: boolean;
  hidden?: boolean;
  list?: string[];
}

export function TextField({ label, value, onInput, placeholder, search, hidden, list }: FieldProps) {
  const id = useId();
  return (
    <div class={search ? "field search" : "field"}>
      <label for={id} class={hidden ? "unseen" : undefined}>
        {label}
      </label>
      <input
        id={id}
        type={search ? "search" : "text"}
        value={value}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        data-search={search ? "" : undefined}
        list={list ? `${id}-list` : undefined}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      {list && (
        <datalist id={`${id}-list`}>
          {list.map((each) => (
            <option value={each} />
          ))}
        </datalist>
      )}
    </div>
  );
}

interface SliderProps {
  label: string;
  value: number;
  least: number;
  most: number;
  step: number;
  show?: (value: number) => string;
  onInput: (value: number) => void;
}

export function Slider({ label, value, least, most, step, show, onInput }: SliderProps) {
  const id = useId();
  return (
    <div class="field slider">
      <label for={id}>
        {label} <output for={id}>{show ? show(value) : value}</output>
      </label>
      <input
        id={id}
        type="range"
        min={least}
        max={most}
        step={step}
        value={value}
        onInput={(event) => onInput(Number(event.currentTarget.value))}
      />
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  choices: readonly { value: T; title: string }[];
  onChange: (value: T) => void;
}

/** A few choices, of which one is taken: arrows move between them. */
export function Choice<T extends string>({ label, value, choices, onChange }: ChoiceProps<T>) {
  const name = useId();
  return (
    <fieldset class="choice">
      <legend class="unseen">{label}</legend>
      {choices.map((each) => (
        <label class={each.value === value ? "chosen" : undefined}>
          <input
            type="radio"
            class="unseen"
            name={name}
            checked={each.value === value}
            onChange={() => onChange(each.value)}
          />
          {each.title}
        </label>
      ))}
    </fieldset>
  );
}

interface AskProps {
  title: string;
  children: ComponentChildren;
  yes: string;
  danger?: boolean;
  ready?: boolean;
  onYes: () => void;
  onNo: () => void;
}

/** A question before something is done; Escape says no. It opens at its top: a field takes the cursor only if it is marked
 * with `autofocus`. */
export function Question({ title, children, yes, danger, ready = true, onYes, onNo }: AskProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const id = useId();
  // At once, so that no key that somebody presses goes past it.
  useLayoutEffect(() => {
    const shown = dialog.current;
    const before = document.activeElement as HTMLElement | null;
    shown?.showModal();
    // By itself a dialog focuses its first field, and scrolls past what stands above it.
    if (!shown?.querySelector("[autofocus]")) heading.current?.focus();
    return () => {
      shown?.close();
      before?.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onNo();
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (ready) onYes();
        }}
      >
        <h2 id={id} ref={heading} tabIndex={-1}>
          {title}
        </h2>
        {children}
        <div class="buttons">
          <button type="button" onClick={onNo}>
            Cancel
          </button>
          <button type="submit" class={danger ? "danger" : "primary"} disabled={!ready}>
            {yes}
          </button>
        </div>
      </form>
    </dialog>
  );
}

export function Fold({ title, children, open = false }: { title: ComponentChildren; children: ComponentChildren; open?: boolean }) {
  const [seen, setSeen] = useState(open);
  return (
    <details open={open} onToggle={(event) => setSeen(event.currentTarget.open || seen)}>
      <summary>{title}</summary>
      {seen && <div class="fold">{children}</div>}
    </details>
  );
}

/** Text as it is stored, long or not. A keyboard can scroll it. */
export function Source({ text, label }: { text: string; label: string }) {
  return (
    <pre class="source" tabIndex={0} role="region" aria-label={label}>
      {text}
    </pre>
  );
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={toast.bad ? "toast bad" : "toast"}>
          <span>{toast.text}</span>
          {toast.undo && (
            <button
              type="button"
              onClick={() => {
                dismiss(toast.id);
                toast.undo?.().catch((error: unknown) => say(describe(error), { bad: true }));
              }}
            >
              Undo
            </button>
          )}
          <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(toast.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
