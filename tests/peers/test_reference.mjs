// Our forward passes against the reference engine, every position of 200-token prompts. time limit: 600 s
//   node test_reference.mjs [PART_OF_A_NAME...]
//
// F32 weights, random models of every architecture. With F32 keys and values on both sides both compute the same thing up to
// rounding. With f16 keys and values on both sides, and the reference as it runs by default (flash attention, the whole prompt
// in one batch), both read the same f16 cache and compute in f32; what is left are keys and values that fall on the other
// side of a border between two f16 numbers. Three ways of the reference round more, so we are not held against them: without
// flash attention it rounds queries and probabilities to f16, and in batches of fewer than 64 tokens, or for heads whose width is
// no multiple of 16, it keeps the sum over values in f16. For such heads its plain attention is taken, with a looser bound.
//
// Narrow weights: the reference rounds activations to f16 or 8 bits there, which moves random models more than any fault we
// look for. So our exact tier is held against the reference on the same weights widened to F32, and our fast tier may
// be no further from that than twice the reference's own rounding.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {compareScores, formatResult, readScores} from "./compare_logits.mjs";
import {exactCases, N_VOCAB, randomTokens, runChimere, runProgram, synthArgs, typeCases, widenModel} from "./cases.mjs";
import {hasPeer} from "./load_peer.mjs";

if (!hasPeer("node-llama-cpp")) {
    console.log("node-llama-cpp is not installed (npm ci --ignore-scripts in tests/peers)");
    process.exit(77);
}
if (parseInt(process.versions.node) < 20) {
    console.log(`the reference engine needs node 20, this is ${process.versions.node}`);
    process.exit(77);
}
const {openReference, runJob} = await import("./ref_logits.mjs");

const N_POS = 200;
const MAX_DIFF = 5e-4;       // log-probability, where p > e^-15; measured: below 1e-4
const MAX_DIFF_F16KV = 2e-3; // f16 keys and values on both sides
const MAX_DIFF_ODD = 2e-2;   // odd heads; in any case no further than the reference is from itself with an f32 cache, and MAX_DIFF
const MAX_KL = 1e-3;
const dir = fs.mkdtempSync(path.join(process.env.CHIMERE_TMP ?? os.tmpdir(), "ref-"));
const file = path.join(dir, "model.gguf"), wide = path.join(dir, "wide.gguf"), out = path.join(dir, "ours.f32");
const wanted = process.argv.slice(2);
const engine = await openReference();
let passed = 0, failed = 0;

function ours(model, tokens, extra = []) {
    runChimere(["logits", "-m", model, "--tokens", tokens.join(","), "--all", "-o", out, ...extra]);
    return readScores(out);
}

async function theirs(model, tokens, kv, n_vocab, more = {}) {
    return (await runJob(engine, {model, tokens, kv, n_vocab, ...more})).logprobs;
}

function sameTop(r) {
    return r.top1 + r.ties === r.nPos;
}

// Runs one check; it gives [good, text] lines.
async function check(name, body) {
    if (wanted.length > 0 && !wanted.some((w) => name.includes(w))) return;
    let lines;
    try {
        lines = await body();
    } catch (error) {
        lines = [[false, error.message]];
    }
    const good = lines.every(([g]) => g);
    console.log(`${good ? "ok  " : "FAIL"} ${name}`);
    for (const [g, text] of lines) console.log(`       ${g ? "" : "HERE "}${text}`);
    if (good) passed++;
    else failed++;
}

// Both sides with f16 keys and values, the reference as it runs by default.
async function checkHalf(tokens) {
    const mine = ours(file, tokens, ["--kv-type-k", "f16", "--kv-type-v", "f16"]);
    const r = compareScores(await theirs(file, tokens, "F16", N_VOCAB, {flash: "auto", batch: N_POS + 8}), mine, N_VOCAB);
    return [r.maxLikely <= MAX_DIFF_F16KV && sameTop(r), `f16 cache: ${formatResult(r)}`];
}

async function checkHalfOdd(tokens, mine, theirs32) {
    const theirs16 = await theirs(file, tokens, "F16", N_VOCAB), r = compareScores(theirs16, mine, N_VOCAB);
    const most = Math.min(MAX_DIFF_ODD, MAX_DIFF + compareScores(theirs16, theirs32, N_VOCAB).maxLikely);
    return [r.maxLikely <= most && sameTop(r), `f16 cache, odd heads: ${formatResult(r)}; at most ${most.toExponential(2)}`];
}

for (const c of exactCases)
    await check(c.name, async () => {
        runChimere(synthArgs(c, file));
        const tokens = randomTokens(c.seed, N_POS, N_VOCAB), mine = ours(file, tokens);
        const theirs32 = await theirs(file, tokens, "F32", N_VOCAB), f32 = compareScores(theirs32, mine, N_VOCAB);
        return [
            [f32.maxLikely <= MAX_DIFF && sameTop(f32), `F32 cache: ${formatResult(f32)}`],
            c.odd_head ? await checkHalfOdd(tokens, mine, theirs32) : await checkHalf(tokens)
        ];
    });

async function checkNarrow(tokens, n_vocab) {
    runProgram(widenModel, [file, wide]);
    const exact = await theirs(wide, tokens, "F32", n_vocab);
    const rounding = compareScores(exact, await theirs(file, tokens, "F16", n_vocab), n_vocab);
    const ref = compareScores(exact, ours(file, tokens, ["--tier", "ref"]), n_vocab);
    const best = compareScores(exact, ours(file, tokens), n_vocab);
    return [
        [ref.maxLikely <= MAX_DIFF && ref.kl < MAX_KL && sameTop(ref), `ref tier:  ${formatResult(ref)}`],
        [best.kl < Math.max(MAX_KL, 2 * rounding.kl), `best tier: ${formatResult(best)}`],
        [true, `rounding of the reference itself: ${formatResult(rounding)}`]
    ];
}

for (const c of typeCases)
    await check(c.name, async () => {
        runChimere(synthArgs(c, file));
        return await checkNarrow(randomTokens(c.seed, N_POS, N_VOCAB), N_VOCAB);
    });

// The trained model, on the longest prompts of its evaluation.
if (process.env.CHIMERE_TESTDATA) {
    const models = path.join(process.env.CHIMERE_TESTDATA, "models");
    const items = JSON.parse(fs.readFileSync(path.join(models, "mini-eval.json"), "utf8"))
        .sort((a, b) => b.prompt_tokens.length - a.prompt_tokens.length).slice(0, 2);
    for (const type of ["f16", "q8_0"])
        for (const [i, item] of items.entries())
            await check(`mini-${type}-${i}`, async () => {
                fs.copyFileSync(path.join(models, `mini-qwen35moe-${type}.gguf`), file);
                fs.chmodSync(file, 0o644);
                const tokens = [...item.prompt_tokens, ...item.tokens], n_vocab = 2048;
                const lines = await checkNarrow(tokens, n_vocab);
                const direct = compareScores(await theirs(file, tokens, "F16", n_vocab), ours(file, tokens), n_vocab);
                lines.push([direct.kl < MAX_KL, `best tier against the reference as it runs: ${formatResult(direct)}`]);
                return lines;
            });
}

await engine.dispose();
fs.rmSync(dir, {recursive: true, force: true});
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 || passed === 0 ? 1 : 0);
