// Random texts that are hard for tokenizers: mixed scripts, digits, line ends, spaces of all kinds, combining marks, emoji
// with joiners, contractions, spellings of special tokens. The same seed gives the same texts.
export function makeRandom(seed) {
    let s = BigInt(seed) | 1n;
    return (n) => {
        s ^= (s << 13n) & 0xffffffffffffffffn;
        s ^= s >> 7n;
        s ^= (s << 17n) & 0xffffffffffffffffn;
        return Number(s % BigInt(n));
    };
}

const WORDS = ["Hello", "world", "the", "I", "don", "we", "THE", "CamelCase", "snake_case", "naïve", "Straße", "ÉCOLE", "привет", "Мир",
    "你好", "世界", "日本語", "カタカナ", "ひらがな", "한국어", "안녕", "العربية", "עברית", "हिन्दी", "ไทย", "ខ្មែរ", "தமிழ்", "ελληνικά", "tiếng",
    "Việt", "résumé", "ﬁnal", "ſtrong", "Ωmega", "x", "aaaaaaaa", "base64==", "0xFF", "http://a.b/c?d=e&f=g", "user@host", "C++", "</div>"];
const ENDS = ["\n", "\r\n", "\r", "\n\n", "\n \n", "\t\n", " \n", "\n\n\n"];
const SPACES = [" ", "  ", "   ", "\t", "\t\t", "\u00a0", "\u2003", "\u3000", "\u2028", " \u00a0 ", "                "];
const CONTRACTIONS = ["'s", "'S", "'t", "'re", "'RE", "'Ve", "'m", "'ll", "'LL", "'d", "'x", "’s", "' s", "''s"];
const EMOJI = ["😀", "🚀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "✅", "☺️", "😶‍🌫️", "🦙", "1️⃣"];
const MARKS = ["e\u0301", "a\u0300\u0323", "\u0301", "\u200d", "\ufe0f", "\u0e48", "क\u094d", "\u1100\u1161\u11a8", "\u0308\u0301", "i\u0307", "\u0344",
    "\u212b", "\u1e9b\u0323", "\uac00\u11a8"];
const PUNCT = ["!", "...", "—", "“", "”", "(", ")", "[", "]", "{}", "<|", "|>", "</", "$5", "€", "№", "½", "²", "###", "---", "```", "\\n", "_", "«»", "。", "、"];
const DIGITS = ["1", "12", "123", "1234567", "3.14", "٣٤", "१२", "Ⅷ", "௧", "10,000", "1e-9", "２０２４"];

// Ranges of assigned characters, sampled as they are (unassigned ones are left out: versions of Unicode differ).
const RANGES = [[0x20, 0x7e], [0xa0, 0x17f], [0x370, 0x3ff], [0x400, 0x45f], [0x5d0, 0x5ea], [0x620, 0x64a], [0x900, 0x97f], [0xe01, 0xe3a],
    [0x1e00, 0x1eff], [0x2010, 0x2027], [0x2030, 0x205e], [0x2190, 0x21ff], [0x3041, 0x3096], [0x4e00, 0x9fa5], [0xac00, 0xd7a3],
    [0x1f300, 0x1f5ff], [0x1d400, 0x1d454], [0x300, 0x36f]];

export function makeText(random, specials) {
    const pick = (list) => list[random(list.length)];
    const kinds = [WORDS, WORDS, WORDS, ENDS, SPACES, SPACES, CONTRACTIONS, EMOJI, MARKS, PUNCT, DIGITS, null, specials];
    let s = "";
    for (let n = 1 + random(24); n > 0; n--) {
        const list = kinds[random(kinds.length)];
        if (list) s += pick(list);
        else
            for (let k = 1 + random(6); k > 0; k--) {
                const [a, b] = pick(RANGES);
                const c = String.fromCodePoint(a + random(b - a + 1));
                if (/\p{Cn}/u.test(c)) continue;
                s += c;
            }
        if (random(3) === 0) s += " ";
    }
    return s;
}
