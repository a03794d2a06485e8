// Compares two sets of next-token scores at many positions.
//   node compare_logits.mjs REFERENCE.f32 OURS.f32 N_VOCAB
// Both are f32, little-endian, [n_pos][n_vocab]: logits or log-probabilities, since every row is normalised first.
import fs from "node:fs";
import {pathToFileURL} from "node:url";

export function readScores(file) {
    const b = fs.readFileSync(file);
    if (b.length % 4 !== 0) throw new Error(`${file}: ${b.length} bytes are not a whole number of f32 values`);
    return new Float32Array(b.buffer.slice(b.byteOffset, b.byteOffset + b.length));
}

// Row i of scores as log-probabilities, in double precision.
export function logProbs(scores, i, nVocab) {
    const row = Float64Array.from(scores.subarray(i * nVocab, (i + 1) * nVocab));
    let max = -Infinity, sum = 0;
    for (const x of row) {
        if (Number.isNaN(x)) throw new Error(`position ${i}: not a number`);
        if (x > max) max = x;
    }
    for (const x of row) sum += Math.exp(x - max);
    const norm = max + Math.log(sum);
    for (let t = 0; t < nVocab; t++) row[t] -= norm;
    return row;
}

// maxLikely: over tokens with p > e^-15 in the reference; maxAll: over all it gives a finite value; kl: mean over positions
// of sum p log(p/q); top1: positions whose best token is the same; ties: of the others, those where the reference's own
// two best are closer than 0.02.
export function compareScores(ref, ours, nVocab) {
    if (ref.length !== ours.length || ref.length % nVocab !== 0)
        throw new Error(`sizes differ: reference ${ref.length}, ours ${ours.length} values, vocabulary ${nVocab}`);
    const nPos = ref.length / nVocab;
    const r = {nPos, maxLikely: 0, maxAll: 0, kl: 0, maxKl: 0, top1: 0, ties: 0, worst: undefined};
    for (let i = 0; i < nPos; i++) {
        const p = logProbs(ref, i, nVocab), q = logProbs(ours, i, nVocab);
        let kl = 0, bestP = 0, bestQ = 0;
        for (let t = 0; t < nVocab; t++) {
            if (p[t] > p[bestP]) bestP = t;
            if (q[t] > q[bestQ]) bestQ = t;
            if (p[t] === -Infinity) continue;
            const d = Math.abs(p[t] - q[t]);
            if (!(d <= r.maxAll)) r.maxAll = d;
            if (p[t] > -15 && !(d <= r.maxLikely)) {
                r.maxLikely = d;
                r.worst = {position: i, token: t, reference: p[t], ours: q[t]};
            }
            kl += Math.exp(p[t]) * (p[t] - q[t]);
        }
        r.kl += kl / nPos;
        if (!(kl <= r.maxKl)) r.maxKl = kl;
        if (bestP === bestQ) r.top1++;
        else if (p[bestP] - p[bestQ] < 0.02) r.ties++;
    }
    return r;
}

export function formatResult(r) {
    const e = (x) => x.toExponential(2);
    return `max |dlogp| ${e(r.maxLikely)} (p > e^-15), ${e(r.maxAll)} (all); KL ${e(r.kl)}; top-1 ${r.top1}+${r.ties} of ${r.nPos}`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
    const [, , ref, ours, nVocab] = process.argv;
    const r = compareScores(readScores(ref), readScores(ours), Number(nVocab));
    console.log(formatResult(r));
    if (r.worst) console.log(`worst: position ${r.worst.position} token ${r.worst.token}: ${r.worst.reference} and ${r.worst.ours}`);
}
