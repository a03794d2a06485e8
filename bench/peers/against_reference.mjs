// Prefill and decode speed against the reference engine (npm's node-llama-cpp) on the same file, in turns in the same run.
//   node bench/peers/against_reference.mjs MODEL.gguf [--prefill 512] [--decode 32] [--threads 2] [--rounds 3]
// Prints a line per round and the ratios of the medians. Needs the packages of tests/peers (or CHIMERE_PEERS) and ./chimere.
import {execFileSync} from "node:child_process";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {parseArgs} from "node:util";
import {openReference} from "../../tests/peers/ref_logits.mjs";

const {values, positionals} = parseArgs({
    allowPositionals: true,
    options: {
        prefill: {type: "string", default: "512"}, decode: {type: "string", default: "32"},
        threads: {type: "string", default: "2"}, rounds: {type: "string", default: "3"}
    }
});
const [model] = positionals;
if (!model) {
    console.error("usage: against_reference.mjs MODEL.gguf [--prefill 512] [--decode 32] [--threads 2] [--rounds 3]");
    process.exit(2);
}
const [nPrefill, nDecode, threads, rounds] = ["prefill", "decode", "threads", "rounds"].map((k) => Number(values[k]));
const chimere = process.env.CHIMERE_BIN ?? path.join(path.dirname(fileURLToPath(import.meta.url)), "../../chimere");
const median = (x) => x.toSorted((a, b) => a - b)[x.length >> 1];

function ours() {
    const r = JSON.parse(execFileSync(chimere, ["bench", "-m", model, "-p", String(nPrefill), "-n", String(nDecode), "-t", String(threads),
        "-r", "1", "-q", "--json"], {encoding: "utf8"}));
    return {prefill: r.prefill_tps, decode: r.decode_tps, read: r.read_gbps, decodeRead: r.decode_gbps};
}

// Tokens alone, without sampling: what a step costs. A first short run warms the weights.
async function theirs(engine) {
    const m = await engine.loadModel({modelPath: model, gpuLayers: 0, checkTensors: false});
    const context = await m.createContext({contextSize: nPrefill + nDecode + 16, sequences: 1, batchSize: 512, threads});
    const sequence = context.getSequence(), ids = Array.from({length: nPrefill}, (_, i) => 1 + 7 * i % 250);
    await sequence.evaluateWithoutGeneratingNewTokens(ids.slice(0, 32));
    await sequence.clearHistory();
    let begin = performance.now();
    await sequence.evaluateWithoutGeneratingNewTokens(ids);
    const prefill = nPrefill / (performance.now() - begin) * 1000;
    begin = performance.now();
    for (let i = 0; i < nDecode; i++)
        await sequence.controlledEvaluate([[1 + 11 * i % 250, {generateNext: {token: true, options: {temperature: 0}}}]]);
    const decode = nDecode / (performance.now() - begin) * 1000;
    await context.dispose();
    await m.dispose();
    return {prefill, decode};
}

const engine = await openReference(), a = [], b = [];
for (let i = 0; i < rounds; i++) {
    b.push(await theirs(engine));
    a.push(ours());
    const [x, y] = [a.at(-1), b.at(-1)];
    console.log(`round ${i + 1}: prefill ${x.prefill.toFixed(1)} / ${y.prefill.toFixed(1)}, decode ${x.decode.toFixed(2)} / ${y.decode.toFixed(2)} tokens/s` +
        ` (chimere / reference); read ${x.read.toFixed(1)} GB/s, decode reads ${x.decodeRead.toFixed(1)}`);
}
await engine.dispose();
const ratio = (k) => median(a.map((x) => x[k])) / median(b.map((x) => x[k]));
console.log(`medians: prefill ${median(a.map((x) => x.prefill)).toFixed(1)} tokens/s, ${ratio("prefill").toFixed(2)} times the reference; ` +
    `decode ${median(a.map((x) => x.decode)).toFixed(2)}, ${ratio("decode").toFixed(2)} times; ` +
    `decode reads ${(100 * median(a.map((x) => x.decodeRead / x.read))).toFixed(0)} % of the bandwidth`);
