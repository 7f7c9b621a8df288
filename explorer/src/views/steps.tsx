// What agents did in a conversation, step by step, as a tree of runs and their sub-agents.

import { useState } from "preact/hooks";
import type { Memory } from "../connection/connection";
import { useAct, useAsked } from "../parts/asking";
import { Badge, Empty, Failure, Fold, Loading, Source } from "../parts/pieces";
import { memory } from "../store";
import { showCount, showJson, showMoment, showNumber } from "../text";

interface Step {
  seq: number;
  type: string;
  operation_id: string;
  agent_id?: string;
  agent_name?: string;
  sub_agent_id?: string;
  sub_agent_name?: string;
  content?: unknown;
  tool_name?: string;
  tool_call_id?: string;
  arguments?: unknown;
  result?: unknown;
  is_error?: boolean;
  model?: string;
  usage?: { input_tokens?: number; output_tokens?: number; cost_usd?: number };
  created_at: string;
}

interface StepPage {
  steps: Step[];
  next_cursor?: string;
}

export function StepTree({ thread }: { thread: string }) {
  const [more, setMore] = useState<StepPage>({ steps: [] });
  const [busy, act] = useAct();
  const asked = useAsked((from, signal) => from.call<StepPage>("list_steps", { thread_id: thread, limit: 200 }, signal), [thread]);
  if (asked.error) return <Failure error={asked.error} again={asked.again} />;
  if (!asked.value) return <Loading what="Reading the steps" />;
  const steps = [...asked.value.steps, ...more.steps];
  const next = more.steps.length ? more.next_cursor : asked.value.next_cursor;
  if (!steps.length)
    return (
      <Empty title="No steps are recorded here">
        <p>
          A program that runs agents records them with <code>record_steps</code>.
        </p>
      </Empty>
    );
  const runs = group(steps, (step) => step.operation_id);
  return (
    <div class="stack scroll-y">
      {[...runs].map(([run, own]) => (
        <section class="card" aria-label={`Run ${run}`}>
          <div class="card-head">
            <h2>{run}</h2>
            <span class="meta">
              {showCount(own.length, "step")} · {showNumber(own.reduce((sum, step) => sum + tokensOf(step), 0))} tokens
            </span>
          </div>
          <ul class="steps">
            {own.filter((step) => !step.sub_agent_id).map((step) => (
              <StepLine step={step} />
            ))}
            {[...group(own.filter((step) => step.sub_agent_id), (step) => step.sub_agent_id ?? "")].map(([id, theirs]) => (
              <li>
                <Fold title={`sub-agent ${theirs[0]?.sub_agent_name ?? id}, ${showCount(theirs.length, "step")}`} open>
                  <ul class="steps">
                    {theirs.map((step) => (
                      <StepLine step={step} />
                    ))}
                  </ul>
                </Fold>
              </li>
            ))}
          </ul>
        </section>
      ))}
      {next && (
        <button
          type="button"
          disabled={busy}
          onClick={() =>
            act(async () => {
              const page = await (memory.value as Memory).call<StepPage>("list_steps", { thread_id: thread, limit: 200, cursor: next });
              setMore((last) => ({ ...page, steps: [...last.steps, ...page.steps] }));
            })
          }
        >
          Show more steps
        </button>
      )}
    </div>
  );
}

const tokensOf = (step: Step): number => (step.usage?.input_tokens ?? 0) + (step.usage?.output_tokens ?? 0);

function group(steps: Step[], by: (step: Step) => string): Map<string, Step[]> {
  const groups = new Map<string, Step[]>();
  for (const step of steps) groups.set(by(step), [...(groups.get(by(step)) ?? []), step]);
  return groups;
}

function StepLine({ step }: { step: Step }) {
  const what = step.type === "tool_call" ? `calls ${step.tool_name}` : step.type === "tool_result" ? `${step.tool_name ?? "tool"} returned` : step.type.replace("_", " ");
  const told = step.content ?? step.arguments ?? step.result;
  return (
    <li>
      <Fold
        title={
          <>
            {what} {step.is_error && <Badge tone="bad">failed</Badge>}{" "}
            <span class="meta">
              {step.agent_name} {step.model} {tokensOf(step) > 0 && `${showNumber(tokensOf(step))} tokens`} {showMoment(step.created_at)}
            </span>
          </>
        }
      >
        <Source text={showJson(told ?? step)} label={what} />
      </Fold>
    </li>
  );
}
