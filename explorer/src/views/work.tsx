// Work that goes on: plans with their revisions and attempts, runs that wait for somebody, and jobs in the background.

import { useState } from "preact/hooks";
import { nameJob, nameRunState } from "../names";
import type { Memory } from "../connection/connection";
import { useAct, useAsked, useWatched } from "../parts/asking";
import { Badge, Choice, Empty, Failure, Fold, Head, Loading, Question, Source } from "../parts/pieces";
import { ThreadField } from "../parts/threads";
import { go, memory, route, say } from "../store";
import { showCount, showJson, showMoment } from "../text";

export function Work() {
  const { thread, query } = route.value;
  const tab = query["tab"] ?? "runs";
  return (
    <div class="view">
      <Head title="Plans and agent runs" note="What agents do, what waits for your answer, and what the server does in the background.">
        <Choice
          label="What to show"
          value={tab as "runs"}
          choices={[
            { value: "runs", title: "Runs" },
            { value: "plan" as "runs", title: "Plan" },
            { value: "jobs" as "runs", title: "In the background" },
          ]}
          onChange={(next: string) => go({ view: "work", thread, query: { tab: next } }, true)}
        />
      </Head>
      {tab !== "jobs" && (
        <ThreadField
          value={thread}
          {...(tab === "runs" ? { all: "All of them" } : {})}
          onPick={(picked) => go({ view: "work", thread: picked, query: { tab } })}
        />
      )}
      {tab === "jobs" ? <Jobs /> : tab === "plan" ? <PlanShown thread={thread} /> : <Runs thread={thread} />}
    </div>
  );
}

interface Run {
  run_id: string;
  thread_id: string;
  status: string;
  workflow_id?: string;
  parent_run_id?: string;
  reason?: string;
  waiting?: { tool_call_id: string; tool_name: string }[];
  claimed_by?: string;
  claimed_until?: string;
  created_at: string;
  updated_at: string;
  usage?: { input_tokens?: number; output_tokens?: number; cost_usd?: number };
}

interface WholeRun extends Run {
  pending_tool_calls?: { tool_call_id: string; tool_name: string; arguments?: unknown }[];
  resumed?: unknown[];
  output?: unknown;
}

const TONE: { [status: string]: string } = {
  running: "accent",
  suspended: "warn",
  completed: "good",
  failed: "bad",
};

function Runs({ thread }: { thread: string }) {
  const from = memory.value as Memory;
  const [older, setOlder] = useState<{ runs: Run[]; next_cursor?: string }>({ runs: [] });
  const [busy, act] = useAct();
  const given = { limit: 50, ...(thread ? { thread_id: thread } : {}) };
  const asked = useAsked(
    (at, signal) => at.call<{ runs: Run[]; next_cursor?: string }>("list_runs", given, signal),
    [thread],
  );
  useWatched(thread ? [`memory://threads/${encodeURIComponent(thread)}/runs`] : [], asked.again);
  if (!from.has("list_runs")) return <NotOffered what="list_runs" />;
  if (asked.error) return <Failure error={asked.error} again={asked.again} />;
  if (!asked.value) return <Loading what="Reading the runs" />;
  const runs = [...asked.value.runs, ...older.runs];
  const next = older.runs.length ? older.next_cursor : asked.value.next_cursor;
  if (!runs.length)
    return (
      <Empty title="No runs are recorded">
        <p>
          A program that runs agents records them with <code>start_run</code> or <code>suspend_run</code>. Those that wait for
          a person are answered here.
        </p>
      </Empty>
    );
  return (
    <div class="stack">
      {runs.map((run) => (
        <RunCard key={`${run.run_id} ${run.updated_at}`} run={run} onChanged={asked.again} />
      ))}
      {next && (
        <button
          type="button"
          disabled={busy}
          onClick={() =>
            act(async () => {
              const page = await from.call<{ runs: Run[]; next_cursor?: string }>("list_runs", { ...given, cursor: next });
              setOlder((last) => ({ ...page, runs: [...last.runs, ...page.runs] }));
            })
          }
        >
          Show older runs
        </button>
      )}
    </div>
  );
}

function NotOffered({ what }: { what: string }) {
  return (
    <Empty title="This server does not show runs">
      <p>
        It does not offer you its tool <code>{what}</code>. Start the server with <code>--toolsets all</code>, or sign in with
        a key that has the right.
      </p>
    </Empty>
  );
}

function RunCard({ run, onChanged }: { run: Run; onChanged: () => void }) {
  const from = memory.value as Memory;
  const [asking, setAsking] = useState(false);
  const [busy, act] = useAct();
  const waits = Boolean(run.waiting?.length);
  const ended = ["completed", "failed", "cancelled", "expired"].includes(run.status);
  const whole = useAsked(
    waits ? (at, signal) => at.call<WholeRun>("get_run", { run_id: run.run_id }, signal) : null,
    [run.run_id, run.updated_at],
  );
  const waiting = new Set((run.waiting ?? []).map((each) => each.tool_call_id));
  const decide = (call: string, decision: "approve" | "deny") =>
    act(async () => {
      const answer = await from.call<{ waiting: number | unknown[] }>("decide_run", {
        run_id: run.run_id,
        decisions: [{ tool_call_id: call, decision }],
      });
      const left = Array.isArray(answer.waiting) ? answer.waiting.length : answer.waiting;
      say(`${decision === "approve" ? "Approved." : "Denied."}${left ? ` ${left} more to answer.` : ""}`);
      onChanged();
    });
  return (
    <article class="card" aria-label={`Run ${run.run_id}`}>
      <div class="card-head">
        <h2 class="row">
          {run.run_id} <Badge tone={TONE[run.status] ?? "plain"}>{nameRunState(run.status)}</Badge>
        </h2>
        <div class="row">
          <span class="meta">
            {run.workflow_id && `${run.workflow_id} · `}
            {showMoment(run.updated_at)}
          </span>
          {!ended && (
            <button type="button" class="danger" disabled={busy} onClick={() => setAsking(true)}>
              Cancel run
            </button>
          )}
        </div>
      </div>
      <p class="meta">
        <button type="button" class="link" onClick={() => go({ view: "conversation", thread: run.thread_id, query: { tab: "steps" } })}>
          {run.thread_id}
        </button>
        {run.reason && ` · ${run.reason}`}
        {run.claimed_by && ` · runs at ${run.claimed_by} until ${showMoment(run.claimed_until)}`}
      </p>
      {whole.error && <Failure error={whole.error} again={whole.again} />}
      {(whole.value?.pending_tool_calls ?? [])
        .filter((call) => waiting.has(call.tool_call_id))
        .map((call) => (
          <section class="stack" aria-label={`Call of ${call.tool_name}`}>
            <h3>
              {call.tool_name} <span class="meta">waits for an answer</span>
            </h3>
            <Source text={showJson(call.arguments)} label={`Arguments of ${call.tool_name}`} />
            <div class="row">
              <button type="button" class="primary" disabled={busy} onClick={() => decide(call.tool_call_id, "approve")}>
                Approve
              </button>
              <button type="button" class="danger" disabled={busy} onClick={() => decide(call.tool_call_id, "deny")}>
                Deny
              </button>
            </div>
          </section>
        ))}
      {!waits && (
        <Fold title="Details">
          <RunDetails id={run.run_id} />
        </Fold>
      )}
      {asking && (
        <Question
          title={`Cancel run ${run.run_id}?`}
          yes="Cancel the run"
          danger
          ready={!busy}
          onYes={() =>
            act(async () => {
              await from.call("cancel_run", { run_id: run.run_id, reason: "cancelled in the explorer" });
              setAsking(false);
              say("Cancelled.");
              onChanged();
            })
          }
          onNo={() => setAsking(false)}
        >
          <p>It ends wherever it is and cannot go on later. This cannot be undone.</p>
        </Question>
      )}
    </article>
  );
}

function RunDetails({ id }: { id: string }) {
  const asked = useAsked((at, signal) => at.call<WholeRun>("get_run", { run_id: id }, signal), [id]);
  if (asked.error) return <Failure error={asked.error} again={asked.again} />;
  if (!asked.value) return <Loading what="Reading the run" />;
  return <Source text={showJson(asked.value)} label={`Run ${id}`} />;
}

interface PlanAnswer {
  revision: number;
  oldest_revision?: number;
  updated_at?: string;
  plan: null | {
    goal: string;
    current_phase?: string;
    iteration?: number;
    steps: { id: string; phase?: string; description: string; status: string; [other: string]: unknown }[];
  };
}

const STEP_TONE: { [status: string]: string } = { completed: "good", in_progress: "accent", failed: "bad", blocked: "warn" };

function PlanShown({ thread }: { thread: string }) {
  const [revision, setRevision] = useState(0);
  const asked = useAsked(
    thread
      ? (at, signal) =>
          at.call<PlanAnswer>("plan", { action: "review", thread_id: thread, format: "json", ...(revision ? { revision } : {}) }, signal)
      : null,
    [thread, revision],
  );
  const newest = useAsked(
    thread ? (at, signal) => at.call<PlanAnswer>("plan", { action: "review", thread_id: thread, format: "json" }, signal) : null,
    [thread],
  );
  const attempts = useAsked(
    thread
      ? (at, signal) =>
          at.call<{ blocks?: { block: string; text?: string }[] }>("get_context", { thread_id: thread, format: "json" }, signal)
      : null,
    [thread],
  );
  useWatched(thread ? [`memory://threads/${encodeURIComponent(thread)}/plan`] : [], () => {
    asked.again();
    newest.again();
  });
  if (!thread)
    return (
      <Empty title="Choose a conversation">
        <p>Its plan is then shown, with its versions and what was tried.</p>
      </Empty>
    );
  if (asked.error) return <Failure error={asked.error} again={asked.again} />;
  if (!asked.value) return <Loading what="Reading the plan" />;
  const plan = asked.value.plan;
  const tried = attempts.value?.blocks?.find((block) => block.block === "previous-attempts")?.text;
  if (!plan?.steps)
    return (
      <Empty title="This conversation has no plan">
        <p>
          An agent makes one with the tool <code>plan</code>.
        </p>
      </Empty>
    );
  const done = plan.steps.filter((step) => step.status === "completed").length;
  const last = newest.value?.revision ?? asked.value.revision;
  const first = asked.value.oldest_revision ?? 1;
  return (
    <div class="stack">
      <section class="card" aria-label="Plan">
        <div class="card-head">
          <h2>{plan.goal}</h2>
          <div class="field">
            <label for="revision">Version</label>
            <select id="revision" value={revision || last} onChange={(event) => setRevision(Number(event.currentTarget.value))}>
              {Array.from({ length: Math.max(1, Math.min(200, last - first + 1)) }, (_, index) => last - index).map((each) => (
                <option value={each}>
                  {each}
                  {each === last ? " (newest)" : ""}
                </option>
              ))}
            </select>
          </div>
        </div>
        <p class="meta">
          {done} of {showCount(plan.steps.length, "step")} done · phase {plan.current_phase} · round {plan.iteration} ·{" "}
          {showMoment(asked.value.updated_at)}
        </p>
        <ol class="steps">
          {plan.steps.map((step) => (
            <li class="row">
              <Badge tone={STEP_TONE[step.status] ?? "plain"}>{step.status.replace("_", " ")}</Badge>
              <span class="grow">{step.description}</span>
              {step.phase && <span class="meta">{step.phase}</span>}
            </li>
          ))}
        </ol>
      </section>
      {tried && (
        <section class="card" aria-label="Attempts">
          <h2>What was tried</h2>
          <Source text={tried} label="Attempts" />
        </section>
      )}
    </div>
  );
}

interface JobState {
  jobs?: { waiting?: JobRow[]; failed?: JobRow[]; [other: string]: JobRow[] | unknown };
  thinking?: { model?: string; budget?: { [name: string]: unknown } };
}

interface JobRow {
  kind: string;
  state?: string;
  jobs?: number;
  thread_id?: string;
  failures?: number;
  error?: string;
  next_at?: string;
  since?: string;
}

/** How a job failed, in words; empty if it did not. */
function describeFailure({ thread_id, failures, error, next_at, since }: Partial<JobRow>): string {
  const told = [
    thread_id && `in ${thread_id}`,
    failures && `failed ${showCount(failures, "time")}`,
    error,
    next_at && `again ${showMoment(next_at)}`,
    since && `given up ${showMoment(since)}`,
  ];
  return told.filter(Boolean).join(" · ");
}

const STATES: { [state: string]: string } = {
  later: "waits for more to be said",
  due: "next",
  running: "being done",
  failing: "failed, will be tried again",
  dead: "failed too often",
};

function Jobs() {
  const from = memory.value as Memory;
  const [busy, act] = useAct();
  const asked = useAsked((at, signal) => at.call<JobState>("memory_status", {}, signal), []);
  if (asked.error) return <Failure error={asked.error} again={asked.again} />;
  if (!asked.value) return <Loading what="Reading the jobs" />;
  const rows = Object.entries(asked.value.jobs ?? {}).flatMap(([list, value]) =>
    Array.isArray(value) ? (value as JobRow[]).map((row) => ({ list, row })) : [],
  );
  const failed = rows.some(({ list, row }) => list === "dead" || row.state === "dead");
  return (
    <section class="card" aria-label="In the background">
      <div class="card-head">
        <h2>Work in the background</h2>
        <div class="row">
          <button type="button" onClick={asked.again}>
            Look again
          </button>
          {from.surelyHas("resume_jobs") && (
            <button
              type="button"
              disabled={busy || !failed}
              onClick={() =>
                act(async () => {
                  const answer = await from.call<{ resumed: number }>("resume_jobs");
                  say(`${showCount(answer.resumed, "job")} will be tried again.`);
                  asked.again();
                })
              }
            >
              Try failed ones again
            </button>
          )}
        </div>
      </div>
      <p class="note">Model: {asked.value.thinking?.model}</p>
      {rows.length ? (
        <div class="scroll-x">
          <table>
            <thead>
              <tr>
                <th>What is made</th>
                <th>State</th>
                <th class="number">How many</th>
                <th>More</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ list, row }) => {
                const { kind, state, jobs, ...rest } = row;
                return (
                  <tr>
                    <td>{nameJob(kind)}</td>
                    <td>{STATES[state ?? list] ?? state ?? list}</td>
                    <td class="number">{jobs ?? 1}</td>
                    <td class="meta">{describeFailure(rest)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      ) : (
        <Empty title="Nothing is to be done" />
      )}
    </section>
  );
}
