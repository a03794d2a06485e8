// Chat templates against a second, independent renderer: where it agrees with Jinja2 (tests/golden/template_hashes.json), our
// text must be its text. Elsewhere the two references differ from each other and Jinja2 counts (test_templates.py).
// time limit: 300 s
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import {fileURLToPath} from "node:url";
import {hasPeer, loadPeer} from "./load_peer.mjs";

const PEER = "@huggingface/jinja", NOW = 1764547200;
const data = process.env.CHIMERE_TESTDATA;
if (!data || !hasPeer(PEER)) {
    console.log(data ? `${PEER} is not installed` : "CHIMERE_TESTDATA is not set");
    process.exit(77);
}
const {Template} = await loadPeer(PEER);
const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");
const golden = path.join(root, "tests/golden");
const chimere = process.env.CHIMERE_BIN ?? path.join(root, "chimere");
const sets = JSON.parse(fs.readFileSync(path.join(golden, "template_sets.json"), "utf8"));
const hashes = JSON.parse(fs.readFileSync(path.join(golden, "template_hashes.json"), "utf8"));

function fnv64(text) {
    let h = 0xcbf29ce484222325n;
    for (const b of Buffer.from(text, "utf8")) h = ((h ^ BigInt(b)) * 0x100000001b3n) & 0xffffffffffffffffn;
    return h.toString(16).padStart(16, "0");
}

// The peer reads the clock itself; every render shall see the same moment.
process.env.TZ = "UTC";
const RealDate = Date;
globalThis.Date = class extends RealDate {
    constructor(...a) {
        super(...(a.length ? a : [NOW * 1000]));
    }
};

const agreement = {};
let passed = 0, failed = 0, apart = 0;
for (const name of Object.keys(hashes)) {
    const file = path.join(data, "templates", name);
    const source = fs.readFileSync(file, "utf8");
    const input = sets.map((s) => JSON.stringify(s.vars) + "\n").join("");
    const out = execFileSync(chimere, ["template", "--template", file, "--batch", "--now", String(NOW)], {input, maxBuffer: 1 << 28, encoding: "utf8", env: {PATH: process.env.PATH}});
    const ours = out.split("\n").slice(0, -1).map((x) => JSON.parse(x));
    const agrees = [];
    sets.forEach((s, i) => {
        let text;
        try {
            text = new Template(source).render(s.vars);
        } catch {
            text = null;
        }
        if (text === null || fnv64(text) !== hashes[name][s.name]) {
            apart++;
            return;
        }
        agrees.push(s.name);
        if (ours[i].text === text) passed++;
        else {
            failed++;
            console.log(`${name}, ${s.name}: ours ${JSON.stringify(ours[i]).slice(-400)}\n  peer ${JSON.stringify(text).slice(-400)}`);
        }
    });
    agreement[name] = agrees;
}
if (process.argv[2] === "--record") {
    const rows = Object.entries(agreement).map(([k, v]) => `${JSON.stringify(k)}: ${JSON.stringify(v)}`);
    fs.writeFileSync(path.join(golden, "template_agreement.json"), `{\n${rows.join(",\n")}\n}\n`);
}
console.log(`the references agree on ${passed + failed} of ${passed + failed + apart} texts (the rest: other text, or an error on either side)`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
