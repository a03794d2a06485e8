// The same text from both engines: greedy completions of the reference engine (npm's node-llama-cpp) and what ours chooses at each of
// their steps.
//   node tests/peers/compare_text.mjs MODEL.gguf EVAL.jsonl [--items 40] [--tokens 200] [--threads 1] [--reference OTHER.gguf] [--json]
// EVAL.jsonl holds prompts as tools/corpus/generate.py writes them; items are taken evenly over the file, in turns with and without
// thinking. Twice: with the weights widened to F32, where both compute the same thing up to rounding (F32 keys and values); and the file
// as it is, where the reference rounds activations in its own way. The first decides the exit code: every completion is the same,
// token for token, or ends in a near-tie of the two best tokens; log-probabilities agree. --reference gives the reference another file.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {spawnSync} from "node:child_process";
import {parseArgs} from "node:util";
import {chimere, runChimere, runProgram, widenModel} from "./cases.mjs";
import {logProbs, readScores} from "./compare_logits.mjs";
import {openReference} from "./ref_logits.mjs";

const NEAR_TIE = 0.02, LOGPROB_BOUND = 0.01; // as tests/golden/test_mini_eval.c
const {values, positionals} = parseArgs({
    allowPositionals: true,
    options: {
        items: {type: "string", default: "40"}, tokens: {type: "string", default: "200"}, threads: {type: "string", default: "1"},
        reference: {type: "string"}, json: {type: "boolean", default: false}
    }
});
const [model, evalFile] = positionals;
if (!evalFile) {
    console.error("usage: compare_text.mjs MODEL.gguf EVAL.jsonl [--items 40] [--tokens 200] [--threads 1] [--reference OTHER.gguf] [--json]");
    process.exit(2);
}
const dir = fs.mkdtempSync(path.join(process.env.CHIMERE_TMP ?? os.tmpdir(), "text-"));

function lines(args, input) {
    const r = spawnSync(chimere, args, {input, encoding: "utf8", maxBuffer: 1 << 28});
    if (r.status !== 0) throw new Error(`chimere ${args.join(" ")}: ${r.stderr}`);
    return r.stdout.trim().split("\n").map((x) => JSON.parse(x));
}

// Prompts as token ids.
function readPrompts() {
    const all = fs.readFileSync(evalFile, "utf8").trim().split("\n"), n = Math.min(Number(values.items), all.length);
    const items = Array.from({length: n}, (_, i) => ({...JSON.parse(all[Math.floor((i * all.length) / n)]), think: i % 2 === 0}));
    const rendered = lines(["template", "-m", model, "--batch"], items.map((x) =>
        JSON.stringify({messages: x.messages, ...x.tools ? {tools: x.tools} : {}, enable_thinking: x.think}) + "\n").join(""));
    for (const r of rendered) if (r.error) throw new Error(r.error);
    const ids = lines(["tokenize", "-m", model, "--special", "--batch"], rendered.map((x) => JSON.stringify(x.text) + "\n").join(""));
    return items.map((x, i) => ({kind: x.kind, think: x.think, text: rendered[i].text, tokens: ids[i].ids ?? ids[i]}));
}

const engine = await openReference();

// The reference's greedy continuation, with the log-probability of each token. It ends behind an end token.
async function complete(context, m, prompt) {
    const sequence = context.getSequence(), tokens = [], logprobs = [];
    const options = {temperature: 1, topK: 0, topP: 1, minP: 0};
    try {
        if (prompt.tokens.length > 1) await sequence.evaluateWithoutGeneratingNewTokens(prompt.tokens.slice(0, -1));
        for (let last = prompt.tokens.at(-1); tokens.length < Number(values.tokens);) {
            const [result] = await sequence.controlledEvaluate([[last, {generateNext: {probabilities: true, options}}]]);
            let best = -1, p = -1;
            for (const [token, q] of result.next.probabilities) if (q > p) [best, p] = [token, q];
            tokens.push(best);
            logprobs.push(Math.log(p));
            last = best;
            if (m.isEogToken(best)) break;
        }
        return {tokens, logprobs};
    } finally {
        await sequence.dispose();
    }
}

async function completeAll(file, prompts) {
    const m = await engine.loadModel({modelPath: file, gpuLayers: 0, useMmap: true, checkTensors: false});
    const context = await m.createContext({
        contextSize: Math.max(...prompts.map((x) => x.tokens.length)) + Number(values.tokens) + 8, sequences: 1, batchSize: 512,
        threads: Number(values.threads), flashAttention: false, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32"
    });
    const out = [];
    let sameIds = 0;
    for (const x of prompts) {
        out.push(await complete(context, m, x));
        const ids = m.tokenize(x.text, true);
        sameIds += ids.length === x.tokens.length && ids.every((id, i) => id === x.tokens[i]);
    }
    await context.dispose();
    await m.dispose();
    return {out, sameIds};
}

// How ours goes along the reference's completion.
function follow(file, prompt, reference) {
    const scores = path.join(dir, "scores.f32"), tokens = [...prompt.tokens, ...reference.tokens.slice(0, -1)];
    runChimere(["logits", "-m", file, "--tokens", tokens.join(","), "--all", "-o", scores, "-q", "--threads", values.threads]);
    const all = readScores(scores), nVocab = all.length / tokens.length;
    let far = 0;
    for (const [k, want] of reference.tokens.entries()) {
        const row = logProbs(all, prompt.tokens.length - 1 + k, nVocab);
        const best = row.reduce((b, x, i) => x > row[b] ? i : b, 0);
        far = Math.max(far, Math.abs(row[want] - reference.logprobs[k]));
        if (best !== want) return {end: row[best] - row[want] <= NEAR_TIE ? "tie" : "other", step: k, gap: row[best] - row[want], far};
    }
    return {end: "same", step: reference.tokens.length, gap: 0, far};
}

async function compare(name, ourFile, theirFile, prompts) {
    const {out, sameIds} = await completeAll(theirFile, prompts);
    const r = {name, items: prompts.length, prompts_tokenized_alike: sameIds, same: 0, tie: 0, other: 0, tokens: 0, largest_difference: 0};
    for (const [i, x] of prompts.entries()) {
        const f = follow(ourFile, x, out[i]);
        r[f.end]++;
        r.tokens += f.step;
        r.largest_difference = Math.max(r.largest_difference, f.far);
        if (f.end === "other" && !values.json)
            console.log(`  ${x.kind}, ${x.think ? "thinking" : "direct"}: step ${f.step} differs, ${f.gap.toFixed(4)} apart`);
    }
    if (!values.json)
        console.log(`${name}: ${r.items} completions: ${r.same} the same, ${r.tie} end in a near-tie, ${r.other} differ; ${r.tokens} tokens, ` +
            `largest difference of a log-probability ${r.largest_difference.toFixed(4)}; ${sameIds} prompts tokenized alike`);
    return r;
}

const prompts = readPrompts(), theirs = values.reference ?? model;
const wide = path.join(dir, "wide.gguf"), theirWide = values.reference ? path.join(dir, "their_wide.gguf") : wide;
runProgram(widenModel, [model, wide]);
if (values.reference) runProgram(widenModel, [theirs, theirWide]);
const exact = await compare("weights widened to F32", wide, theirWide, prompts);
const direct = await compare("as the file is", model, theirs, prompts);
if (values.json) console.log(JSON.stringify({exact, direct}, null, 1));
await engine.dispose();
fs.rmSync(dir, {recursive: true, force: true});
const good = exact.other === 0 && exact.prompts_tokenized_alike === exact.items && exact.largest_difference <= LOGPROB_BOUND;
process.exit(good ? 0 : 1);
