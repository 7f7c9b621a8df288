// 10,000 conversations, talk-1 to talk-10000, the lowest numbers changed last: a list that somebody can still use.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { KEY, URL_OF, call } from "./memory.mjs";

const { chromium } = createRequire(join(process.env.EXPLORER_ROOT, "explorer/package.json"))("playwright-core");
const COUNT = 10_000;
const MOST_ROWS = 80;

let browser;
let page;

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, locale: "en-GB", reducedMotion: "reduce" });
  context.setDefaultTimeout(30_000);
  page = await context.newPage();
  await page.goto(`${URL_OF}/explore#/conversation`);
  await page.getByLabel("Key").fill(KEY);
  await page.getByRole("button", { name: "Sign in" }).click();
});

after(async () => {
  await browser?.close();
});

const rows = () => page.locator("[data-row]");
const thread = (name) => page.locator(".picked", { has: page.getByText(new RegExp(`· ${name}$`)) });

test("the list says how many there are, and begins with what was changed last", async () => {
  await page.getByText("10,000 conversations").waitFor();
  await thread("talk-1").waitFor();
  assert.equal(await rows().first().getAttribute("data-row"), "0");
  assert.ok((await rows().count()) < MOST_ROWS);
});

test("its last conversation is a key away, and what stands before it is there, too", async () => {
  await rows().first().focus();
  await page.keyboard.press("End");
  const last = page.locator(`[data-row="${COUNT - 1}"]`);
  await last.locator(".picked").waitFor();
  assert.equal(await last.getAttribute("aria-posinset"), String(COUNT));
  await page.locator(`[data-row="${COUNT - 5}"] .picked`).waitFor();
  assert.ok((await rows().count()) < MOST_ROWS);
});

test("at each place of the list is what stands there", async () => {
  const listed = [];
  for (let cursor = ""; cursor !== undefined; ) {
    const page = await call("list_threads", { limit: 100, ...(cursor ? { cursor } : {}) });
    listed.push(...page.threads.map((each) => each.thread_id));
    cursor = page.next_cursor;
  }
  assert.equal(new Set(listed).size, COUNT);
  // What the page shows at a place is what stands there.
  for (const index of [0, 2_500, 5_000, 7_499]) {
    await page.locator(".virtual").evaluate((box, share) => {
      box.scrollTop = share * box.scrollHeight;
    }, index / COUNT);
    const row = page.locator(`[data-row="${index}"]`);
    await row.locator(".picked").waitFor();
    assert.match(await row.textContent(), new RegExp(`· ${listed[index]}$`));
    assert.ok((await rows().count()) < MOST_ROWS);
  }
});

test("a search finds one among all, wherever it stands, and opens it", async () => {
  await page.getByLabel("Search titles and names").fill("talk-8765");
  await page.getByText("1 conversation found").waitFor();
  assert.equal(await rows().count(), 1);
  await thread("talk-8765").click();
  await page.locator("article", { hasText: "Question 8765 about tea." }).waitFor();
});

test("whoever has scrolled far sees what others change, and stays where he is", async () => {
  await page.evaluate(() => {
    location.hash = "#/conversation";
  });
  await page.getByText("10,000 conversations").waitFor();
  await page.locator(".virtual").evaluate((box) => {
    box.scrollTop = box.scrollHeight / 2;
  });
  await page.locator('[data-row="5000"] .picked').waitFor();
  const at = await page.locator(".virtual").evaluate((box) => box.scrollTop);
  await call("add_messages", { thread_id: "one-more", messages: [{ role: "user", content: "And another." }] });
  await page.getByText("10,001 conversations").waitFor();
  await page.locator('[data-row="5000"] .picked').waitFor();
  assert.ok(Math.abs((await page.locator(".virtual").evaluate((box) => box.scrollTop)) - at) < 200);
  await page.locator(".virtual").evaluate((box) => {
    box.scrollTop = 0;
  });
  await thread("one-more").waitFor();
});
