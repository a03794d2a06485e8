// Writes tests/golden/logits/NAME.json from the reference engine, so that the check runs where it is not installed:
//   node make_golden.mjs [NAME...]
// A file holds how to make the model, its checksum, the prompt, and at every position the log-probabilities of the four best
// tokens and of two others drawn by position.
import crypto from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {exactCases, N_VOCAB, randomTokens, root, runChimere, synthArgs} from "./cases.mjs";
import {logProbs} from "./compare_logits.mjs";
import {openReference, runJob} from "./ref_logits.mjs";

const N_POS = 200;
const dir = fs.mkdtempSync(path.join(os.tmpdir(), "golden-"));
const engine = await openReference();
const wanted = process.argv.slice(2);
for (const c of exactCases.filter((x) => x.golden && (wanted.length === 0 || wanted.includes(x.name)))) {
    const file = path.join(dir, "model.gguf");
    runChimere(synthArgs(c, file));
    const tokens = randomTokens(c.seed, N_POS, N_VOCAB);
    const {logprobs, nVocab} = await runJob(engine, {model: file, tokens, kv: "F32", n_vocab: N_VOCAB});
    const rows = tokens.map((_, i) => {
        const row = logProbs(logprobs, i, nVocab);
        const order = Array.from(row.keys()).sort((a, b) => row[b] - row[a] || a - b);
        const picks = [...order.slice(0, 4), ...randomTokens(1000 + i, 2, nVocab)];
        return picks.flatMap((t) => [t, Number(row[t].toFixed(5))]);
    });
    const golden = {
        name: c.name, synth: synthArgs(c, "MODEL").slice(1), sha256: crypto.createHash("sha256").update(fs.readFileSync(file)).digest("hex"),
        reference: "node-llama-cpp 3.21.1, F32 key/value cache", n_vocab: nVocab, tokens, rows
    };
    const text = JSON.stringify(golden).replace('"rows":[', '"rows":[\n').replaceAll("],[", "],\n[");
    fs.writeFileSync(path.join(root, "tests/golden/logits", `${c.name}.json`), text + "\n");
    console.log(`${c.name}: ${text.length} bytes`);
}
await engine.dispose();
fs.rmSync(dir, {recursive: true, force: true});
