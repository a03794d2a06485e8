// compare_text.mjs on the trained test model: the same text as the reference engine; another file's text is told apart. Needs CHIMERE_TESTDATA.
import {spawnSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {hasPeer} from "./load_peer.mjs";

const data = process.env.CHIMERE_TESTDATA;
if (!hasPeer("node-llama-cpp") || !data || parseInt(process.versions.node) < 20) {
    console.log("node-llama-cpp (with node 20) or CHIMERE_TESTDATA is missing");
    process.exit(77);
}
const here = path.dirname(fileURLToPath(import.meta.url)), tmp = process.env.CHIMERE_TMP ?? fs.mkdtempSync(path.join(os.tmpdir(), "text-"));
let passed = 0, failed = 0;
function check(ok, what) {
    if (ok) passed++;
    else failed++, console.log(`FAILED: ${what}`);
}
const items = ["Capital of France?", "What is 3 plus 4?", "Tell me a story about Tom."].map((content) => JSON.stringify({kind: "any", messages: [{role: "user", content}]}));
fs.writeFileSync(`${tmp}/items.jsonl`, items.join("\n") + "\n");
function run(...args) {
    const r = spawnSync(process.execPath, [path.join(here, "compare_text.mjs"), `${data}/models/mini-qwen35moe-q8_0.gguf`, ...args], {encoding: "utf8"});
    return {code: r.status, text: r.stdout + r.stderr, json: r.stdout.startsWith("{") ? JSON.parse(r.stdout) : {}};
}
const same = run(`${tmp}/items.jsonl`, "--items", "3", "--tokens", "60", "--json");
check(same.code === 0 && same.json.exact.same + same.json.exact.tie === 3 && same.json.exact.tokens > 60, `the same text: ${same.text}`);
check(same.json.direct?.items === 3, `the file as it is: ${same.text}`);
const other = run(`${tmp}/items.jsonl`, "--items", "3", "--tokens", "60", "--reference", `${data}/models/mini-qwen35moe-f16.gguf`);
check(other.code === 1 && /weights widened/.test(other.text), `weights of another file: ${other.text}`);
check(run().code === 2, "usage");
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
