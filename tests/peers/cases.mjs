// The models with random weights on which chimere and the reference engine are compared, and how to make them.
import {spawnSync} from "node:child_process";
import path from "node:path";
import {fileURLToPath} from "node:url";

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
export const chimere = process.env.CHIMERE_BIN ?? path.join(root, "chimere");
// Built by `make tests` beside the binary under test.
export const widenModel = path.join(process.env.CHIMERE_BIN ? path.dirname(chimere) : path.join(root, "build/release"), "tests/peers/widen_model");

const heads = (k, v) => ["--ssm-heads-k", String(k), "--ssm-heads-v", String(v)];

// Value heads per key head 1, 2 and 3; several seeds and shapes. golden: also kept as a file in tests/golden. odd_head: keys or
// values whose width is no multiple of 16, which the reference's attention computes another way (see test_reference.mjs).
export const exactCases = [
    {name: "llama-a", arch: "llama", seed: 1, args: [], golden: true},
    {name: "llama-b", arch: "llama", seed: 2, args: ["--n-head", "6", "--n-head-kv", "2", "--d-head", "32", "--n-layer", "3"]},
    {name: "qwen35-r1", arch: "qwen35", seed: 3, args: heads(4, 4), golden: true},
    {name: "qwen35-r2", arch: "qwen35", seed: 4, args: heads(2, 4), golden: true},
    {name: "qwen35-r3", arch: "qwen35", seed: 5, args: heads(2, 6), golden: true},
    {name: "qwen35moe-r1", arch: "qwen35moe", seed: 6, args: heads(4, 4), golden: true},
    {name: "qwen35moe-r2", arch: "qwen35moe", seed: 7, args: heads(2, 4), golden: true},
    {name: "qwen35moe-r3", arch: "qwen35moe", seed: 8, args: heads(2, 6), golden: true},
    {name: "qwen35moe-wide", arch: "qwen35moe", seed: 9, args: [...heads(2, 4), "--n-expert", "16", "--n-expert-used", "4"]},
    {name: "qwen3next-r1", arch: "qwen3next", seed: 10, args: heads(4, 4), golden: true},
    {name: "qwen3next-r2", arch: "qwen3next", seed: 11, args: heads(2, 4), golden: true},
    {name: "qwen3next-r3", arch: "qwen3next", seed: 12, args: heads(2, 6), golden: true},
    {name: "mamba", arch: "mamba", seed: 60, golden: true},
    {name: "mamba-norms", arch: "mamba", preset: "tiny-norms", seed: 61},
    {name: "mamba2", arch: "mamba2", seed: 62, golden: true},
    {name: "mamba2-wide", arch: "mamba2", preset: "tiny-wide", seed: 63},
    {name: "nemotron_h", arch: "nemotron_h", seed: 64, golden: true},
    {name: "nemotron_h_moe", arch: "nemotron_h_moe", seed: 65, golden: true},
    {name: "nemotron_h_moe-latent", arch: "nemotron_h_moe", preset: "tiny-latent", seed: 66},
    {name: "granitehybrid", arch: "granitehybrid", seed: 67, golden: true},
    {name: "granitehybrid-moe", arch: "granitehybrid", preset: "tiny-moe", seed: 68},
    {name: "falcon-h1", arch: "falcon-h1", seed: 69, golden: true},
    {name: "falcon-h1-gate", arch: "falcon-h1", preset: "tiny-gate", seed: 70},
    {name: "jamba", arch: "jamba", seed: 71, golden: true},
    {name: "plamo2", arch: "plamo2", seed: 72, golden: true},
    {name: "llama-moe", arch: "llama", preset: "tiny-moe", seed: 80},
    {name: "qwen2", arch: "qwen2", seed: 81, golden: true},
    {name: "qwen2moe", arch: "qwen2moe", seed: 82, golden: true},
    {name: "qwen3", arch: "qwen3", seed: 83, golden: true, odd_head: true},
    {name: "qwen3-even", arch: "qwen3", seed: 183, args: ["--d-head", "32", "--n-layer", "2"]},
    {name: "qwen3moe", arch: "qwen3moe", seed: 84, golden: true, odd_head: true},
    {name: "qwen3moe-even", arch: "qwen3moe", seed: 84, args: ["--d-head", "32", "--n-layer", "2"]},
    {name: "granite", arch: "granite", seed: 85, golden: true},
    {name: "granite-nope", arch: "granite", preset: "tiny-nope", seed: 86},
    {name: "granitemoe", arch: "granitemoe", seed: 87, golden: true},
    {name: "granitemoe-shared", arch: "granitemoe", preset: "tiny-shared", seed: 88},
    {name: "lfm2", arch: "lfm2", seed: 89, golden: true},
    {name: "lfm2moe", arch: "lfm2moe", seed: 90, golden: true},
    {name: "kimi-linear", arch: "kimi-linear", seed: 91, golden: true, odd_head: true},
    {name: "kimi-linear-wide", arch: "kimi-linear", preset: "tiny-wide", seed: 92}
].map((c) => ({type: "f32", preset: "tiny", args: [], ...c}));

// Narrow weights: the types of the acceptance list on two architectures, the others on one.
const listed = ["f16", "q8_0", "q4_0", "q4_k", "q6_k", "iq4_xs", "iq3_s"];
const others = ["bf16", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q5_k", "iq4_nl", "iq3_xxs", "iq2_xxs", "iq2_xs", "iq2_s", "iq1_s", "iq1_m",
    "mxfp4", "tq1_0", "tq2_0"];
export const typeCases = [
    ...listed.flatMap((type, i) => ["llama", "qwen35moe"].map((arch) => ({name: `${arch}-${type}`, arch, seed: 20 + i, type}))),
    ...others.map((type, i) => ({name: `qwen35-${type}`, arch: "qwen35", seed: 40 + i, type}))
].map((c) => ({args: [], preset: "tiny", ...c}));

export const N_VOCAB = 512;
export function synthArgs(c, file) {
    return ["synth", c.arch, file, "--preset", c.preset, "--type", c.type, "--seed", String(c.seed), "--n-vocab", String(N_VOCAB), ...c.args];
}

export function runChimere(args) {
    return runProgram(chimere, args);
}

export function runProgram(program, args) {
    const r = spawnSync(program, args, {encoding: "utf8", maxBuffer: 1 << 28});
    if (r.status !== 0)
        throw new Error(`${path.basename(program)} ${args.join(" ")}: ${r.signal ?? `exit ${r.status}`}\n${r.error ?? ""}${r.stderr}`);
    return r.stdout;
}

// n ids below limit, the same everywhere (a linear congruential generator modulo 2^31).
export function randomTokens(seed, n, limit) {
    let x = BigInt(seed) * 7919n + 12345n;
    return Array.from({length: n}, () => {
        x = (x * 1103515245n + 12345n) & 0x7fffffffn;
        return Number((x >> 8n) % BigInt(limit));
    });
}
