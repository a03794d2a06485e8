// bench/plot.mjs and the CSV it reads.
import {spawnSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {fromCsv, toCsv} from "../../bench/csv.mjs";

const plot = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../bench/plot.mjs");
const tmp = process.env.CHIMERE_TMP ?? fs.mkdtempSync(path.join(os.tmpdir(), "plot-"));
let passed = 0, failed = 0;
function check(ok, what) {
    if (ok) passed++;
    else failed++, console.log(`FAILED: ${what}`);
}

const odd = [{a: 1, b: "x, \"y\"", c: 0.123456789}, {a: -2, b: "", c: 3}], back = fromCsv(toCsv(odd));
check(back[0].b === odd[0].b && back[0].c === 0.12346 && back[1].a === -2 && back[1].b === "", `CSV and back: ${JSON.stringify(back)}`);

// Two models, three depths, one of the models with the reference beside it.
const row = (model, depth, ref) => ({model, arch: "qwen35", threads: 2, tier: "avx2", depth, slots: 1, prefill: 512, prefill_tps: 300 - depth / 100,
    prefill_ref_tps: ref ? 100 : "", decode_tps: 40 - depth / 1000, decode_ref_tps: ref ? 20 : ""});
fs.writeFileSync(`${tmp}/in.csv`, toCsv([0, 1024, 4096].flatMap((d) => [row("a<b>.gguf", d, true), row("c.gguf", d, false)])));
const run = (...args) => spawnSync(process.execPath, [plot, ...args], {encoding: "utf8"});
const drawn = run(`${tmp}/in.csv`, "-o", `${tmp}/out.svg`, "--title", "Speed & depth");
const svg = fs.existsSync(`${tmp}/out.svg`) ? fs.readFileSync(`${tmp}/out.svg`, "utf8") : "";
const count = (re) => (svg.match(re) ?? []).length;
check(drawn.status === 0 && count(/<polyline /g) === 6 && count(/<circle /g) === 18, `lines and points: ${drawn.stderr}${svg.slice(0, 400)}`);
check(count(/stroke-dasharray/g) === 3, "two dashed lines and their legend");
check(!/NaN|undefined|Infinity/.test(svg) && !svg.includes("a<b>") && svg.includes("Speed &#38; depth"), "numbers and escapes");
check(run(`${tmp}/in.csv`).status === 2 && run(`${tmp}/in.csv`, "-o", `${tmp}/x.svg`, "--x", "size").status === 2, "wrong usage is refused");
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
