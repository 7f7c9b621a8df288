// Stored text and numbers as people read them. Text stays text: what is marked in it is cut into pieces, never made markup.

export interface Piece {
  text: string;
  marked: boolean;
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });

export const showDay = (iso: string | undefined): string => (iso ? day.format(new Date(iso)) : "");
export const showMoment = (iso: string | undefined): string => (iso ? moment.format(new Date(iso)) : "");
export const showNumber = (count: number): string => whole.format(count);

export function showCount(count: number, one: string, many = `${one}s`): string {
  return `${showNumber(count)} ${count === 1 ? one : many}`;
}

export function showBytes(bytes: number): string {
  for (const [size, unit] of [
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"],
  ] as const)
    if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  return `${showNumber(bytes)} bytes`;
}

/** What a model cost, in dollars: of small sums down to a millionth. */
export const showMoney = (dollars: number): string =>
  `$${dollars === 0 || dollars >= 0.01 ? dollars.toFixed(2) : dollars.toFixed(6).replace(/0+$/, "")}`;

/** The text with a quotation marked in it; spaces may differ. All of it unmarked if the quotation is not there. */
export function markQuote(text: string, quote: string): Piece[] {
  const words = quote.trim().split(/\s+/).filter(Boolean).map(escapePattern);
  if (!words.length) return [{ text, marked: false }];
  return cut(text, new RegExp(words.join("\\s+"), "iu"), true);
}

/** The text with each of these words marked in it, from their beginning on. */
export function markWords(text: string, words: string[]): Piece[] {
  const sought = words.filter((word) => word.length > 1).map(escapePattern);
  if (!sought.length) return [{ text, marked: false }];
  return cut(text, new RegExp(`(?<![\\p{L}\\p{N}])(?:${sought.join("|")})[\\p{L}\\p{N}]*`, "giu"), false);
}

/** The words of a search field, as `markWords` and `holdsAll` take them. */
export const wordsOf = (query: string): string[] => query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

export function holdsAll(text: string, words: string[]): boolean {
  const folded = text.toLowerCase();
  return words.every((word) => folded.includes(word));
}

function cut(text: string, pattern: RegExp, once: boolean): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  const found = once ? [pattern.exec(text)] : text.matchAll(pattern);
  for (const match of found) {
    if (!match?.[0]) continue;
    if (match.index > from) pieces.push({ text: text.slice(from, match.index), marked: false });
    pieces.push({ text: match[0], marked: true });
    from = match.index + match[0].length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), marked: false });
  return pieces;
}

const escapePattern = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/-]/g, (found) => `\\u{${found.charCodeAt(0).toString(16)}}`);

export interface Line {
  kind: "same" | "added" | "removed";
  text: string;
}

const MOST_LINES = 2000;

/** What changed from one text to another, line by line: the longest common subsequence. */
export function compareLines(before: string, after: string): Line[] {
  const old = before.split("\n").slice(0, MOST_LINES);
  const fresh = after.split("\n").slice(0, MOST_LINES);
  const width = fresh.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row--)
    for (let column = fresh.length - 1; column >= 0; column--)
      lengths[row * width + column] =
        old[row] === fresh[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
  const lines: Line[] = [];
  let row = 0;
  let column = 0;
  while (row < old.length || column < fresh.length) {
    if (row < old.length && column < fresh.length && old[row] === fresh[column]) {
      lines.push({ kind: "same", text: old[row] ?? "" });
      row++;
      column++;
    } else if (row < old.length && (column >= fresh.length || at(row + 1, column) >= at(row, column + 1))) {
      lines.push({ kind: "removed", text: old[row++] ?? "" });
    } else {
      lines.push({ kind: "added", text: fresh[column++] ?? "" });
    }
  }
  return lines;
}

/** JSON as people read it; text as it is. */
export const showJson = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
