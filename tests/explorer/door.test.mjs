// The local file at DOOR, which `layerlore explore` has the browser open: it leads to the page and signs in.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

const require = createRequire(join(process.env.EXPLORER_ROOT, "explorer/package.json"));
const { chromium } = require("playwright-core");

test("the file leads to the page, which is signed in", async () => {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage();
    await page.goto(process.env.DOOR);
    await page.waitForURL("http://127.0.0.1:*/**");
    await page.getByRole("navigation").first().waitFor();
    assert.equal(await page.getByLabel("Key").count(), 0);
    assert.ok(!page.url().includes("once="), "the word of the link stays in the address");
  } finally {
    await browser.close();
  }
});
