// Turns a tokenizer.json (byte-level BPE) into a GGUF file that holds nothing but the vocabulary.
//   node tools/vocab_gguf.mjs TOKENIZER.json PRE OUT.gguf [TOKENIZER_CONFIG.json]
// PRE is the value of tokenizer.ggml.pre, which a tokenizer.json does not name.
import fs from "node:fs";
import path from "node:path";
import {fileURLToPath} from "node:url";

const U32 = 4, I32 = 5, BOOL = 7, STRING = 8, ARRAY = 9;
const NORMAL = 1, CONTROL = 3, USER = 4, UNUSED = 5;

class Writer {
    parts = [];
    u32(x) { const b = Buffer.alloc(4); b.writeUInt32LE(x); this.parts.push(b); }
    u64(x) { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(x)); this.parts.push(b); }
    string(s) { const b = Buffer.from(s, "utf8"); this.u64(b.length); this.parts.push(b); }
    key(name, type) { this.string(name); this.u32(type); }
    strings(name, list) {
        this.key(name, ARRAY);
        this.u32(STRING);
        this.u64(list.length);
        for (const s of list) this.string(s);
    }
    i32s(name, list) {
        this.key(name, ARRAY);
        this.u32(I32);
        this.u64(list.length);
        this.parts.push(Buffer.from(Int32Array.from(list).buffer));
    }
}

export function writeVocab(tokenizer, config, pre, out) {
    const model = tokenizer.model;
    if (!model?.vocab || !model.merges) throw new Error("expected a tokenizer.json with model.vocab and model.merges");
    const text = [], type = [];
    for (const [token, id] of Object.entries(model.vocab)) { text[id] = token; type[id] = NORMAL; }
    for (const t of tokenizer.added_tokens ?? []) { text[t.id] = t.content; type[t.id] = t.special ? CONTROL : USER; }
    for (let i = 0; i < text.length; i++)
        if (text[i] === undefined) { text[i] = `[PAD${i}]`; type[i] = UNUSED; }
    const idOf = new Map(text.map((t, i) => [t, i]));
    const w = new Writer();
    const merges = model.merges.map((m) => (typeof m === "string" ? m : m.join(" ")));
    const ids = [["bos", config?.bos_token], ["eos", config?.eos_token], ["padding", config?.pad_token]]
        .map(([name, t]) => [name, idOf.get(t?.content ?? t)]).filter(([, id]) => id !== undefined);
    w.parts.push(Buffer.from("GGUF"));
    w.u32(3);
    w.u64(0);
    w.u64(6 + ids.length + (config?.add_bos_token === undefined ? 0 : 1));
    w.key("general.architecture", STRING); w.string("llama");
    w.key("tokenizer.ggml.model", STRING); w.string("gpt2");
    w.key("tokenizer.ggml.pre", STRING); w.string(pre);
    w.strings("tokenizer.ggml.tokens", text);
    w.i32s("tokenizer.ggml.token_type", type);
    w.strings("tokenizer.ggml.merges", merges);
    for (const [name, id] of ids) { w.key(`tokenizer.ggml.${name}_token_id`, U32); w.u32(id); }
    if (config?.add_bos_token !== undefined) {
        w.key("tokenizer.ggml.add_bos_token", BOOL);
        w.parts.push(Buffer.from([config.add_bos_token ? 1 : 0]));
    }
    fs.writeFileSync(out, Buffer.concat(w.parts));
}

if (process.argv[1] && path.resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
    const [tokenizer, pre, out, config] = process.argv.slice(2);
    if (!out) {
        console.error("usage: node tools/vocab_gguf.mjs TOKENIZER.json PRE OUT.gguf [TOKENIZER_CONFIG.json]");
        process.exit(2);
    }
    const read = (f) => JSON.parse(fs.readFileSync(f, "utf8"));
    writeVocab(read(tokenizer), config && read(config), pre, out);
}
