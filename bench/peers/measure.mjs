// Both engines on one model file: what against_reference.mjs and table.mjs share.
//
// A setting is {depth, slots}: so many tokens already in the context, so many sequences side by side. For each, `prefill` tokens
// of prompt are read per sequence, then `decode` tokens are made, all sequences in one batch a step.
import {execFileSync} from "node:child_process";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {openReference} from "../../tests/peers/ref_logits.mjs";

export const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");
export const chimere = process.env.CHIMERE_BIN ?? path.join(root, "chimere");
export const median = (x) => {
    const s = x.toSorted((a, b) => a - b), h = s.length >> 1;
    return s.length % 2 ? s[h] : (s[h - 1] + s[h]) / 2;
};
export const numbers = (text) => text.split(",").map(Number);
export {openReference};

// One run of chimere over all settings: its JSON rows.
export function runChimere(model, o) {
    const list = (k) => [...new Set(o.settings.map((s) => s[k]))].join(",");
    const args = ["bench", "-m", model, "-p", o.prefill, "-n", o.decode, "-t", o.threads, "--depth", list("depth"), "--slots",
        list("slots"), "-r", 1, "-q", "--json", ...o.extra ?? []].map(String);
    const all = JSON.parse(execFileSync(chimere, args, {encoding: "utf8", maxBuffer: 1 << 26}));
    const find = (s) => (all.rows ?? [all]).find((r) => r.depth === s.depth && r.slots === s.slots);
    return {cpu: all.cpu, tier: all.tier, arch: all.arch, rows: o.settings.map(find)};
}

// The reference keeps its model and context between rounds; run() gives {prefill_tps, decode_tps} for each setting.
export async function openModel(engine, model, o) {
    const m = await engine.loadModel({modelPath: model, gpuLayers: 0, checkTensors: false});
    const most = (k) => Math.max(...o.settings.map((s) => s[k]));
    const context = await m.createContext({contextSize: most("depth") + o.prefill + o.decode + 16, sequences: most("slots"),
        batchSize: 512, threads: o.threads, flashAttention: o.flash});
    const sequences = Array.from({length: most("slots")}, () => context.getSequence());
    const prompt = (n, salt) => Array.from({length: n}, (_, i) => 1 + (7 * i + 13 * salt) % 250);
    const next = (t, k) => [[1 + (11 * t + 17 * k) % 250, {generateNext: {token: true, options: {temperature: 0}}}]];
    await sequences[0].evaluateWithoutGeneratingNewTokens(prompt(32, 0)); // warms the weights

    async function time(work) {
        const begin = performance.now();
        await work();
        return (performance.now() - begin) / 1000;
    }
    async function runSetting({depth, slots}) {
        const used = sequences.slice(0, slots);
        for (const s of sequences) await s.clearHistory();
        for (const [k, s] of used.entries())
            if (depth) await s.evaluateWithoutGeneratingNewTokens(prompt(depth, k));
        const pre = await time(async () => {
            for (const [k, s] of used.entries()) await s.evaluateWithoutGeneratingNewTokens(prompt(o.prefill, k + 1));
        });
        const dec = await time(async () => {
            for (let t = 0; t < o.decode; t++) await Promise.all(used.map((s, k) => s.controlledEvaluate(next(t, k))));
        });
        return {prefill_tps: o.prefill * slots / pre, decode_tps: o.decode * slots / dec};
    }
    return {
        async run() {
            const out = [];
            for (const s of o.settings) out.push(await runSetting(s));
            return out;
        },
        async close() {
            await context.dispose();
            await m.dispose();
        }
    };
}

// Rounds in turns; a summary of each setting, medians and their ratios.
export async function compare(engine, model, o, onRound = () => {}) {
    const reference = await openModel(engine, model, o), ours = [], theirs = [];
    let about;
    for (let i = 0; i < o.rounds; i++) {
        theirs.push(await reference.run());
        about = runChimere(model, o);
        ours.push(about.rows);
        onRound(i, ours.at(-1), theirs.at(-1));
    }
    await reference.close();
    return o.settings.map((s, k) => {
        const a = (key) => median(ours.map((r) => r[k][key])), b = (key) => median(theirs.map((r) => r[k][key]));
        return {
            cpu: about.cpu, tier: about.tier, arch: about.arch, threads: o.threads, ...s, prefill: o.prefill, decode: o.decode,
            rounds: o.rounds, prefill_tps: a("prefill_tps"), prefill_ref_tps: b("prefill_tps"),
            prefill_ratio: a("prefill_tps") / b("prefill_tps"), prefill_gops: a("prefill_gops"),
            int8_peak_gops: a("int8_peak_gops"), prefill_share: a("prefill_share"), decode_tps: a("decode_tps"),
            decode_ref_tps: b("decode_tps"), decode_ratio: a("decode_tps") / b("decode_tps"), decode_gbps: a("decode_gbps"),
            read_gbps: a("read_gbps"), decode_share: a("decode_share"), experts: ours[0][k].experts_touched ?? 0
        };
    });
}
