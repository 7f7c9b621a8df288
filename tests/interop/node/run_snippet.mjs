// Runs a snippet of clients/: node run_snippet.mjs NAME FUNCTION THREAD PROMPT. Prints its answer as the last line.
const [name, transport, thread, prompt] = process.argv.slice(2);
const snippet = await import(`./clients/${name}.mjs`);
const answer = await snippet.converse(await snippet[transport](thread), prompt);
console.log(JSON.stringify(answer));
