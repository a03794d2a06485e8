// Speed against context length or against slots, as an SVG, from the CSV of `chimere bench --csv` or of bench/peers.
//   node bench/plot.mjs FILE.csv... -o OUT.svg [--x depth|slots] [--title TEXT]
// Two panels: prefill and decode, tokens per second of all sequences together; a line for each model, dashed for the reference
// engine where the file has it. Rows that differ in anything but x belong to different lines. No packages needed.
import fs from "node:fs";
import {parseArgs} from "node:util";
import {fromCsv} from "./csv.mjs";

const {values: v, positionals} = parseArgs({
    allowPositionals: true,
    options: {x: {type: "string", default: "depth"}, out: {type: "string", short: "o"}, title: {type: "string", default: ""}}
});
if (!positionals.length || !v.out || !["depth", "slots"].includes(v.x)) {
    console.error("usage: plot.mjs FILE.csv... -o OUT.svg [--x depth|slots] [--title TEXT]");
    process.exit(2);
}
const panels = [["prefill", "Prefill"], ["decode", "Decode"]];
const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#000000", "#7a4fa3"];
const size = {width: 460, height: 320, left: 62, right: 18, top: 34, bottom: 52};
const xName = {depth: "tokens already in the context", slots: "sequences side by side"}[v.x];
const escape = (s) => String(s).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const number = (n) => n >= 10000 && n % 1024 === 0 ? `${n / 1024}k` : n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n.toFixed(1);

// ---- lines ------------------------------------------------------------------------------------------------------------------
const rows = positionals.flatMap((f) => fromCsv(fs.readFileSync(f, "utf8")));
const other = v.x === "depth" ? "slots" : "depth";
const several = (k) => new Set(rows.map((r) => r[k])).size > 1;
const nameOf = (r) => [r.type ? `${r.arch} ${r.type}` : String(r.model).replace(/\.gguf$/, ""), several(other) ? `${other} ${r[other]}` : "",
    several("threads") ? `${r.threads} threads` : "", several("tier") ? r.tier : "", several("prefill") ? `prompt ${r.prefill}` : ""]
    .filter(Boolean).join(", ");
const lines = [...new Set(rows.map(nameOf))].flatMap((name, i) => {
    const sorted = rows.filter((r) => nameOf(r) === name).sort((a, b) => a[v.x] - b[v.x]), colour = colours[i % colours.length];
    const line = (label, suffix, dash) => ({name: label, colour, dash,
        points: Object.fromEntries(panels.map(([key]) => [key, sorted.map((r) => [r[v.x], r[key + suffix]]).filter((p) => p[1] > 0)]))});
    return [line(name, "_tps", ""), line(`${name}, reference`, "_ref_tps", "5 4")].filter((l) => panels.some(([k]) => l.points[k].length));
});

// ---- drawing ----------------------------------------------------------------------------------------------------------------
// Round steps, at most six of them, from zero to past the largest value.
function ticks(max) {
    const rough = max / 5, power = 10 ** Math.floor(Math.log10(rough || 1));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
    return Array.from({length: Math.ceil(max / step) + 1}, (_, i) => i * step);
}

function drawPanel([key, title], left) {
    const all = lines.flatMap((l) => l.points[key]), xs = [...new Set(all.map((p) => p[0]))].sort((a, b) => a - b);
    if (!xs.length) return "";
    const yTicks = ticks(Math.max(...all.map((p) => p[1]))), top = yTicks.at(-1), x0 = v.x === "slots" ? 0 : xs[0], x1 = xs.at(-1);
    const w = size.width - size.left - size.right, h = size.height - size.top - size.bottom;
    const px = (x) => left + size.left + (x1 > x0 ? (x - x0) / (x1 - x0) : 0.5) * w, py = (y) => size.top + (1 - y / top) * h;
    const out = [`<text x="${left + size.left}" y="20" class="title">${title}, tokens/s</text>`];
    for (const t of yTicks)
        out.push(`<line x1="${left + size.left}" x2="${left + size.left + w}" y1="${py(t)}" y2="${py(t)}" class="${t ? "grid" : "axis"}"/>`,
            `<text x="${left + size.left - 7}" y="${py(t) + 4}" class="right">${number(t)}</text>`);
    let free = -Infinity; // labels that would touch the one before are left out; the last one always stays
    for (const x of xs) {
        const room = px(x1) - px(x) > 34 || x === x1;
        out.push(`<line x1="${px(x)}" x2="${px(x)}" y1="${py(0)}" y2="${py(0) + 4}" class="axis"/>`);
        if (px(x) - free < 34 || !room) continue;
        out.push(`<text x="${px(x)}" y="${py(0) + 18}" class="middle">${number(x)}</text>`);
        free = px(x);
    }
    out.push(`<text x="${left + size.left + w / 2}" y="${py(0) + 38}" class="middle">${xName}</text>`);
    for (const l of lines) {
        const p = l.points[key].map(([x, y]) => [px(x).toFixed(1), py(y).toFixed(1)]);
        out.push(`<polyline points="${p.map((q) => q.join(",")).join(" ")}" fill="none" stroke="${l.colour}" stroke-width="2"` +
            `${l.dash ? ` stroke-dasharray="${l.dash}"` : ""}/>`);
        out.push(...p.map(([x, y]) => `<circle cx="${x}" cy="${y}" r="3" fill="${l.dash ? "#fff" : l.colour}" stroke="${l.colour}"/>`));
    }
    return out.join("\n");
}

const width = panels.length * size.width, perLine = Math.max(1, Math.floor(width / 290)), offset = v.title ? 26 : 0;
const legendRows = Math.ceil(lines.length / perLine), height = offset + size.height + 8 + 20 * legendRows;
const legend = lines.map((l, i) => {
    const x = size.left + i % perLine * 290, y = size.height + 6 + 20 * Math.floor(i / perLine);
    return `<line x1="${x}" x2="${x + 26}" y1="${y - 4}" y2="${y - 4}" stroke="${l.colour}" stroke-width="2"` +
        `${l.dash ? ` stroke-dasharray="${l.dash}"` : ""}/><text x="${x + 33}" y="${y}">${escape(l.name)}</text>`;
});
const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold;font-size:13px}.right{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:#e2e2e2}.axis{stroke:#666}</style>
<rect width="${width}" height="${height}" fill="#fff"/>
${v.title ? `<text x="${width / 2}" y="22" class="title middle">${escape(v.title)}</text>` : ""}
<g transform="translate(0 ${offset})">
${panels.map((p, i) => drawPanel(p, i * size.width)).join("\n")}
${legend.join("\n")}
</g>
</svg>
`;
fs.writeFileSync(`${v.out}.tmp`, svg);
fs.renameSync(`${v.out}.tmp`, v.out);
