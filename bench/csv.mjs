// Tables of the bench scripts: objects with the same keys, to CSV and back.
const cell = (v) => typeof v === "number" && !Number.isInteger(v) ? Number(v.toPrecision(5)).toString()
    : /[",\n]/.test(String(v)) ? `"${String(v).replaceAll('"', '""')}"` : String(v);

export function toCsv(rows) {
    const keys = Object.keys(rows[0]);
    return [keys.join(","), ...rows.map((r) => keys.map((k) => cell(r[k] ?? "")).join(","))].join("\n") + "\n";
}

export function fromCsv(text) {
    const lines = text.trim().split("\n").map((line) => [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)]
        .map((m) => m[1] !== undefined ? m[1].replaceAll('""', '"') : m[2]));
    const typed = (v) => v !== "" && !Number.isNaN(Number(v)) ? Number(v) : v;
    return lines.slice(1).map((l) => Object.fromEntries(lines[0].map((k, i) => [k, typed(l[i] ?? "")])));
}
