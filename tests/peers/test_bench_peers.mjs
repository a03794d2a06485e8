// bench/peers on a tiny model: every setting gets a row of figures, and a table that is interrupted goes on where it stopped.
import {spawnSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {fromCsv} from "../../bench/csv.mjs";
import {hasPeer} from "./load_peer.mjs";

if (!hasPeer("node-llama-cpp")) {
    console.log("node-llama-cpp is not installed");
    process.exit(77);
}
const bench = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../bench/peers");
const tmp = process.env.CHIMERE_TMP ?? fs.mkdtempSync(path.join(os.tmpdir(), "bench-"));
let passed = 0, failed = 0;
function check(ok, what) {
    if (ok) passed++;
    else failed++, console.log(`FAILED: ${what}`);
}
const run = (script, ...args) => spawnSync(process.execPath, [path.join(bench, script), ...args], {encoding: "utf8"});

const common = ["--prefill", "16", "--decode", "4", "--threads", "1", "--rounds", "1"];
const first = run("table.mjs", "qwen35:q8_0", "--preset", "tiny", "--label", "one", "--dir", tmp, "--out", `${tmp}/results`, ...common);
check(first.status === 0 && /\| qwen35 Q8_0 \| 0 \| 1 \|/.test(first.stdout), `table: ${first.stdout}${first.stderr}`);
const again = run("table.mjs", "qwen35:q8_0", "llama:q8_0", "--preset", "tiny", "--label", "one", "--dir", tmp, "--out", `${tmp}/results`,
    ...common);
check(again.status === 0 && !/qwen35:q8_0:/.test(again.stderr) && /llama:q8_0:/.test(again.stderr), `resumed: ${again.stderr}`);
const files = fs.existsSync(`${tmp}/results`) ? fs.readdirSync(`${tmp}/results`) : [];
const rows = files.length === 1 ? fromCsv(fs.readFileSync(`${tmp}/results/${files[0]}`, "utf8")) : [];
check(rows.length === 2 && rows.every((r) => r.prefill_ratio > 0 && r.decode_ratio > 0 && r.decode_share > 0 && r.label === "one"),
    `rows: ${JSON.stringify(rows)}`);

const pair = run("against_reference.mjs", `${tmp}/qwen35-q8_0.gguf`, "--depth", "0,8", "--slots", "1,2", "--json", ...common);
const found = pair.status === 0 ? JSON.parse(pair.stdout) : [];
check(found.length === 4 && found.every((r) => r.decode_tps > 0 && r.decode_ref_tps > 0 && r.prefill_ref_tps > 0),
    `against_reference: ${pair.stdout}${pair.stderr}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
