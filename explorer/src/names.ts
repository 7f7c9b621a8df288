// What the page calls what the server names in its own words. A word that stands in none of these lists is shown as it is.

type Names = { readonly [word: string]: string };

const plain = (names: Names, word: string): string => names[word] ?? word.replaceAll("_", " ");

/** The blocks of a context: a name, and what stands in them. */
export const BLOCKS: { readonly [block: string]: { name: string; meaning: string } } = {
  "predefined-messages": { name: "Fixed beginning", meaning: "examples or a persona that stand before every conversation" },
  "user-profile": { name: "Profile", meaning: "what is kept about you, whatever the conversation" },
  observations: { name: "Notes on earlier messages", meaning: "what was said earlier, in fewer words" },
  summary: { name: "Summary", meaning: "what stands neither in the messages below nor in the notes" },
  conversation: { name: "Messages", meaning: "the newest messages, without the last question" },
  "session-memory": { name: "Memory of this conversation", meaning: "what the assistant keeps in mind while it lasts" },
  "current-task": { name: "Task", meaning: "what is being done, and what comes next" },
  plan: { name: "Plan", meaning: "the plan that is not finished" },
  "previous-attempts": { name: "Attempts", meaning: "what was tried before, and how it ended" },
  "open-work": { name: "Open work", meaning: "unfinished plans and waiting runs of other conversations" },
  memory: { name: "Remembered", meaning: "notes, and lines of other conversations, that fit the question" },
  "current-turn": { name: "Last question", meaning: "your newest message, and what came after it" },
};

export const nameBlock = (block: string): string => BLOCKS[block]?.name ?? block;

const ENTRY_KINDS: Names = { explicit_remember: "you asked for it", "": "other" };

/** A kind of note. */
export const nameEntryKind = (kind: string): string => plain(ENTRY_KINDS, kind);

const HIT_KINDS: Names = { entry: "note", session_memory: "conversation memory", observation: "note on messages" };

/** A kind of what a search finds. */
export const nameHitKind = (kind: string): string => plain(HIT_KINDS, kind);

/** What raises or lowers the score of what a search finds, in the order in which it is shown. */
export const REASONS: Names = {
  lexical: "the same words",
  semantic: "the same meaning",
  context: "words that stand around it",
  speaker: "the one you ask about said it",
  role: "you said it yourself",
  session: "its conversation fits as a whole",
  answers: "it answers what you ask",
  answered: "it was answered",
  followed: "what follows it fits",
  asks: "it only asks",
  empty: "it says little",
  same: "it repeats your question",
};

/** What else is measured of it. */
export const MEASURES: Names = {
  ranking: "sum",
  cosine: "nearness in meaning",
  recency: "newness",
  relevance: "chance that anything fits",
};

const SIGNALS: Names = { lexical: "by words", semantic: "by meaning" };

/** A way in which a search looked. */
export const nameSignal = (signal: string): string => plain(SIGNALS, signal);

const RUN_STATES: Names = { suspended: "waiting", completed: "done" };

/** The state of an agent's run. */
export const nameRunState = (state: string): string => plain(RUN_STATES, state);

const JOBS: Names = {
  observe: "notes on what was said",
  reflect: "shorter notes",
  digest: "notes without a model",
  entries: "what to remember about you",
  session_memory: "memory of a conversation",
};

/** A kind of work in the background, by what it makes. */
export const nameJob = (kind: string): string => plain(JOBS, kind);

const CHANGES: Names = { replace: "written", append: "added to", restore: "brought back", clear: "emptied" };

/** How a version of a document came about. */
export const nameChange = (change: string): string => plain(CHANGES, change);

/** What a person knows of in a memory. All other rows that a server counts are made from it. */
export const KNOWN: Names = {
  threads: "conversations",
  messages: "messages",
  entries: "notes",
  user_profiles: "versions of the profile",
  session_memories: "versions of conversation memory",
  observations: "notes on messages",
  summaries: "summaries",
  plans: "versions of plans",
  attempts: "attempts",
  runs: "agent runs",
  steps: "steps of agents",
};

const COUNTED: Names = { ...KNOWN, restorable_deletes: "deletes that can be undone" };

/** What is counted of a memory. */
export const nameCounted = (what: string): string => plain(COUNTED, what);
