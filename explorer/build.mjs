// The page as one file: the script and the style stand in it, so that it loads nothing. The same sources give the same
// bytes on every machine. `node build.mjs PATH` writes elsewhere.
import { readFile, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const built = await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.tsx" },
  outdir: "out",
  bundle: true,
  minify: true,
  write: false,
  format: "iife",
  target: ["es2022"],
  charset: "ascii",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});
const take = (ending) => built.outputFiles.find((file) => file.path.endsWith(ending)).text.trimEnd();
const script = take(".js");
const style = take(".css");
// What would end the element early, in whatever place of the text it stood.
for (const [name, text] of [["script", script], ["style", style]]) {
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`the ${name} has a text in it that would end its element`);
}
const page = (await readFile(resolve(here, "src/page.html"), "utf8"))
  .replace("/* style */", () => style)
  .replace("/* script */", () => script);
const target = process.argv[2] ?? resolve(here, "../server/explorer/explorer.html");
await writeFile(target, page);
console.log(`${target}: ${Math.round(Buffer.byteLength(page) / 1024)} KiB`);
