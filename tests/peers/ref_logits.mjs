// Reference log-probabilities from llama.cpp through npm's node-llama-cpp.
//
//   node ref_logits.mjs JOBS.json
//
// JOBS: [{model, out, tokens: [ids], batch: 64, threads: 1, kv: "F16"|"F32", flash: false|true|"auto"}]. For each
// job `out` gets log-probabilities of the next token at every position: f32, little-endian, [n_tokens][n_vocab]. The differences of log-probabilities are the
// differences of logits, so this checks a forward pass up to one constant per position.
//
// The model file must have a tokenizer with as many tokens as rows in its output matrix.
import fs from "node:fs";
import {pathToFileURL} from "node:url";
import {loadPeer} from "./load_peer.mjs";

export async function openReference() {
    const llama = await loadPeer("node-llama-cpp");
    return await llama.getLlama({gpu: false, build: "never", progressLogs: false, logLevel: "error", maxThreads: 0});
}

// All distributions of a token list. Probabilities come as a Map from token to p, rounded to f32 by the engine; p = 0 means it
// underflowed and is written as -Infinity.
export async function evaluateTokens(context, nVocab, tokens) {
    const sequence = context.getSequence();
    try {
        const options = {temperature: 1, topK: 0, topP: 1, minP: 0};
        const input = tokens.map((t) => [t, {generateNext: {probabilities: true, options}}]);
        const out = new Float32Array(tokens.length * nVocab).fill(-Infinity);
        await sequence.controlledEvaluate(input, {
            onTokenResult(i, result) {
                const map = result?.next?.probabilities;
                if (map == null) throw new Error(`position ${i}: the reference gave no probabilities`);
                for (const [token, p] of map) out[i * nVocab + token] = Math.log(p);
                result.next.probabilities = undefined;
            }
        });
        return out;
    } finally {
        await sequence.dispose();
    }
}

export async function runJob(engine, job) {
    const model = await engine.loadModel({modelPath: job.model, gpuLayers: 0, useMmap: true, checkTensors: false});
    try {
        const kv = job.kv ?? "F16";
        const context = await model.createContext({
            contextSize: Math.max(64, job.tokens.length + 8), sequences: 1, batchSize: job.batch ?? 64, threads: job.threads ?? 1,
            flashAttention: job.flash ?? false, experimentalKvCacheKeyType: kv, experimentalKvCacheValueType: kv
        });
        const nVocab = job.n_vocab ?? model.fileInfo.metadata.tokenizer.ggml.tokens.length;
        const out = await evaluateTokens(context, nVocab, job.tokens);
        await context.dispose();
        return {logprobs: out, nVocab};
    } finally {
        await model.dispose();
    }
}

async function main() {
    const jobs = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
    const engine = await openReference();
    for (const job of jobs) {
        const {logprobs, nVocab} = await runJob(engine, job);
        fs.writeFileSync(job.out, Buffer.from(logprobs.buffer));
        console.log(`${job.out}: ${job.tokens.length} positions, ${nVocab} tokens`);
    }
    await engine.dispose();
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main();
