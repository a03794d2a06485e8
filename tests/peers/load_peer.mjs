// Finds a peer package in tests/peers/node_modules or, so that several checkouts can share one install, in the folder that
// CHIMERE_PEERS names (one that holds node_modules).
import fs from "node:fs";
import path from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";

function packageEntry(dir, name) {
    const root = path.join(dir, "node_modules", name);
    const manifest = path.join(root, "package.json");
    if (!fs.existsSync(manifest)) return undefined;
    const pkg = JSON.parse(fs.readFileSync(manifest, "utf8"));
    let entry = pkg.exports?.["."] ?? pkg.exports ?? pkg.module ?? pkg.main ?? "index.js";
    while (typeof entry === "object") entry = entry.import ?? entry.node ?? entry.default ?? Object.values(entry)[0];
    return path.join(root, entry);
}

export function peerFolders() {
    const here = path.dirname(fileURLToPath(import.meta.url));
    return [here, process.env.CHIMERE_PEERS].filter((d) => d);
}

export function hasPeer(name) {
    return peerFolders().some((d) => packageEntry(d, name) !== undefined);
}

export async function loadPeer(name) {
    for (const dir of peerFolders()) {
        const file = packageEntry(dir, name);
        if (file !== undefined) return await import(pathToFileURL(file).href);
    }
    throw new Error(`${name} is not installed: npm ci --ignore-scripts in tests/peers`);
}
