// The views of the page: a name, its address, and what is there once it is shown.

export const VIEWS = [
  ["remembered", "#/remembered", ".entry-text"],
  ["context", "#/context/berlin-trip", ".bar"],
  ["recall", "#/recall?q=Which%20budget%20for%20the%20flat", ".hit"],
  ["conversations", "#/conversation", ".picked"],
  ["conversation", "#/conversation/berlin-trip", ".message"],
  ["steps", "#/conversation/berlin-trip?tab=steps", ".steps li"],
  ["documents", "#/documents", ".diff"],
  ["runs", "#/work", ".card"],
  ["plan", "#/work/berlin-trip?tab=plan", ".steps li"],
  ["jobs", "#/work?tab=jobs", ".card"],
  ["numbers", "#/numbers", ".tile"],
  ["keeping", "#/keeping", ".card"],
];
