// The whole table against the reference engine: models with random weights in true shapes, made when missing, one after the other.
//   node bench/peers/table.mjs [ARCH:TYPE...] [--prefill 512] [--decode 32] [--depth 0] [--slots 1] [--threads 2] [--rounds 3]
//       [--minutes 0] [--dir build/bench] [--out bench/results] [--label TEXT] [--preset bench] [--flash]
// Rows go to OUT/<processor>-<tier>-<threads>t.csv after each model, and at the end the file is shown as a table. A row that is there
// already with the same label (by default the commit) is not measured again: an interrupted run goes on where it stopped. After
// --minutes no further model is begun (exit 3 when some are left).
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import {parseArgs} from "node:util";
import {fromCsv, toCsv} from "../csv.mjs";
import {chimere, compare, numbers, openReference, root} from "./measure.mjs";

const types = ["q4_0", "q4_k", "q5_k", "q6_k", "q8_0", "iq4_xs", "mxfp4", "iq3_s", "iq3_xxs", "iq2_xxs", "iq2_s"];
const all = [...types.map((t) => `qwen35:${t}`), "qwen35moe:q4_k"];
const text = (d) => ({type: "string", default: d});
const {values: v, positionals} = parseArgs({
    allowPositionals: true,
    options: {
        prefill: text("512"), decode: text("32"), depth: text("0"), slots: text("1"), threads: text("2"), rounds: text("3"),
        minutes: text("0"), dir: text("build/bench"), out: text("bench/results"), label: text(""), preset: text("bench"),
        flash: {type: "boolean", default: false}
    }
});
const [prefill, decode, threads, rounds, minutes] = ["prefill", "decode", "threads", "rounds", "minutes"].map((k) => Number(v[k]));
const settings = numbers(v.depth).flatMap((depth) => numbers(v.slots).map((slots) => ({depth, slots})));
const dir = path.resolve(root, v.dir), out = path.resolve(root, v.out), begin = Date.now();
const label = v.label || execFileSync("git", ["-C", root, "rev-parse", "--short", "HEAD"], {encoding: "utf8"}).trim();

// The file of this machine: processor and tier as chimere names them.
function resultFile(model) {
    const r = JSON.parse(execFileSync(chimere, ["bench", "-m", model, "-p", "1", "-n", "0", "-t", threads, "-r", "1", "-q", "--json"],
        {encoding: "utf8"}));
    const slug = `${r.cpu || process.arch}-${r.tier}-${threads}t`.toLowerCase().replace(/\((r|tm)\)/g, "").replace(/[^a-z0-9]+/g, "-");
    return path.join(out, `${slug}.csv`);
}

function write(file, rows) {
    fs.mkdirSync(path.dirname(file), {recursive: true});
    fs.writeFileSync(`${file}.tmp`, toCsv(rows));
    fs.renameSync(`${file}.tmp`, file);
}

function markdown(rows) {
    const percent = (x) => `${(100 * x).toFixed(0)} %`;
    const head = ["model, type", "depth", "slots", "prefill, tokens/s", "times the reference", "of the 8-bit peak", "decode, tokens/s",
        "times the reference", "reads, GB/s", "of the read bandwidth"];
    const lines = rows.map((r) => [`${r.arch} ${r.type.toUpperCase()}`, r.depth, r.slots, r.prefill_tps.toFixed(0), r.prefill_ratio.toFixed(2),
        percent(r.prefill_share), r.decode_tps.toFixed(1), r.decode_ratio.toFixed(2), r.decode_gbps.toFixed(1), percent(r.decode_share)]);
    return [head, head.map(() => "---"), ...lines].map((l) => `| ${l.join(" | ")} |`).join("\n");
}

const same = (a, b) => ["arch", "type", "threads", "depth", "slots", "prefill", "decode"].every((k) => a[k] === b[k]);
fs.mkdirSync(dir, {recursive: true});
let file, rows = [], engine, left = 0;
for (const name of positionals.length ? positionals : all) {
    const [arch, type] = name.split(":"), model = path.join(dir, `${arch}-${type}.gguf`);
    if (minutes && Date.now() - begin > minutes * 60000) {
        left++;
        continue;
    }
    if (!fs.existsSync(model))
        execFileSync(chimere, ["synth", arch, model, "--preset", v.preset, "--type", type, "--seed", "1", "-q"], {stdio: "inherit"});
    if (!file) {
        file = resultFile(model);
        if (fs.existsSync(file)) rows = fromCsv(fs.readFileSync(file, "utf8"));
    }
    const wanted = settings.map((s) => ({arch, type, threads, prefill, decode, ...s}));
    const missing = settings.filter((_, i) => !rows.some((r) => same(r, wanted[i]) && String(r.label) === label));
    if (!missing.length) continue;
    engine ??= await openReference();
    console.error(`${name}: ${missing.length} settings, ${((Date.now() - begin) / 60000).toFixed(1)} minutes in`);
    const found = await compare(engine, model, {settings: missing, prefill, decode, threads, rounds, flash: v.flash});
    for (const {arch: a, ...f} of found) {
        const row = {arch: a, type, ...f, label, date: new Date().toISOString().slice(0, 10)}, at = rows.findIndex((r) => same(r, row));
        if (at < 0) rows.push(row);
        else rows[at] = row;
    }
    write(file, rows);
}
await engine?.dispose();
if (rows.length) console.log(markdown(rows));
if (left) console.error(`${left} models left: run again to go on`);
process.exit(left ? 3 : 0);
