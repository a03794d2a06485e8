// Prefill and decode speed against the reference engine (npm's node-llama-cpp) on the same file, in turns in the same run.
//   node bench/peers/against_reference.mjs MODEL.gguf [--prefill 512] [--decode 32] [--depth 0,1024] [--slots 1,4]
//       [--threads 2] [--rounds 3] [--flash] [--json|--csv] [-- options for chimere bench]
// Prints a line per round (on stderr with --json or --csv) and the ratios of the medians. Needs the packages of tests/peers (or
// CHIMERE_PEERS) and ./chimere.
import path from "node:path";
import {parseArgs} from "node:util";
import {toCsv} from "../csv.mjs";
import {compare, numbers, openReference} from "./measure.mjs";

const {values, positionals} = parseArgs({
    allowPositionals: true,
    options: {
        prefill: {type: "string", default: "512"}, decode: {type: "string", default: "32"},
        depth: {type: "string", default: "0"}, slots: {type: "string", default: "1"},
        threads: {type: "string", default: "2"}, rounds: {type: "string", default: "3"},
        flash: {type: "boolean", default: false}, json: {type: "boolean", default: false}, csv: {type: "boolean", default: false}
    }
});
const [model, ...extra] = positionals;
if (!model) {
    console.error("usage: against_reference.mjs MODEL.gguf [--prefill 512] [--decode 32] [--depth 0,1024] [--slots 1,4] " +
        "[--threads 2] [--rounds 3] [--flash] [--json|--csv] [-- options for chimere bench]");
    process.exit(2);
}
const say = values.json || values.csv ? console.error : console.log;
const settings = numbers(values.depth).flatMap((depth) => numbers(values.slots).map((slots) => ({depth, slots})));
const [prefill, decode, threads, rounds] = ["prefill", "decode", "threads", "rounds"].map((k) => Number(values[k]));

const engine = await openReference();
const rows = await compare(engine, model, {settings, prefill, decode, threads, rounds, flash: values.flash, extra}, (i, a, b) => {
    for (const [k, s] of settings.entries())
        say(`round ${i + 1}, depth ${s.depth}, slots ${s.slots}: prefill ${a[k].prefill_tps.toFixed(1)} / ` +
            `${b[k].prefill_tps.toFixed(1)}, decode ${a[k].decode_tps.toFixed(2)} / ${b[k].decode_tps.toFixed(2)} tokens/s ` +
            `(chimere / reference); read ${a[k].read_gbps.toFixed(1)} GB/s, decode reads ${a[k].decode_gbps.toFixed(1)}`);
});
await engine.dispose();
if (values.json) console.log(JSON.stringify(rows, null, 1));
else if (values.csv) process.stdout.write(toCsv(rows.map((r) => ({model: path.basename(model), ...r}))));
else
    for (const r of rows)
        console.log(`depth ${r.depth}, slots ${r.slots}, medians: prefill ${r.prefill_tps.toFixed(1)} tokens/s, ` +
            `${r.prefill_ratio.toFixed(2)} times the reference; decode ${r.decode_tps.toFixed(2)}, ` +
            `${r.decode_ratio.toFixed(2)} times; decode reads ${(100 * r.decode_share).toFixed(0)} % of the bandwidth`);
