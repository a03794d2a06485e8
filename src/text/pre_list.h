// Values of tokenizer.ggml.pre: CH_PRE(name, group, flags); and the groups: CH_PRE_GROUP(group, pattern of pass 1..6, NULL
// when there are fewer). A new value is one line here.
#define CH_PRE_LIST \
    CH_PRE("default", DEFAULT, 0) \
    CH_PRE("llama3", LLAMA3, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("llama-v3", LLAMA3, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("llama-bpe", LLAMA3, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("falcon3", LLAMA3, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("falcon-h1", LLAMA3, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("pixtral", LLAMA3, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("midm-2.0", LLAMA3, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("lfm2", LLAMA3, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("jina-v5-nano", LLAMA3, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("dbrx", LLAMA3, 0) \
    CH_PRE("smaug-bpe", LLAMA3, 0) \
    CH_PRE("qwen2", QWEN2, CH_PRE_NFC) \
    CH_PRE("deepseek-r1-qwen", QWEN2, 0) \
    CH_PRE("kormo", QWEN2, 0) \
    CH_PRE("f2llmv2", QWEN2, 0) \
    CH_PRE("megrez", QWEN2, 0) \
    CH_PRE("qwen35", QWEN35, 0) \
    CH_PRE("tekken", TEKKEN, CH_PRE_IGNORE_MERGES | CH_PRE_ADD_BOS) \
    CH_PRE("gpt-4o", GPT4O, 0) \
    CH_PRE("llama4", GPT4O, 0) \
    CH_PRE("gpt-2", GPT2, 0) \
    CH_PRE("gpt-neox", GPT2, 0) \
    CH_PRE("phi-2", GPT2, 0) \
    CH_PRE("mpt", GPT2, 0) \
    CH_PRE("olmo", GPT2, 0) \
    CH_PRE("jais", GPT2, 0) \
    CH_PRE("exaone4", GPT2, 0) \
    CH_PRE("modern-bert", GPT2, 0) \
    CH_PRE("starcoder", STARCODER, 0) \
    CH_PRE("refact", STARCODER, 0) \
    CH_PRE("command-r", STARCODER, 0) \
    CH_PRE("smollm", STARCODER, 0) \
    CH_PRE("codeshell", STARCODER, 0) \
    CH_PRE("exaone", STARCODER, 0) \
    CH_PRE("minerva-7b", STARCODER, 0) \
    CH_PRE("falcon", FALCON, 0) \
    CH_PRE("kimi-k2", KIMI, 0) \
    CH_PRE("deepseek-llm", DEEPSEEK_LLM, 0) \
    CH_PRE("deepseek-coder", DEEPSEEK_CODER, 0) \
    CH_PRE("deepseek-v3", DEEPSEEK_V3, 0)

// White_Space of Unicode, spelled out: the library's \s also holds U+180E.
#define PRE_WS "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
// Contractions, with the case folding of ASCII only.
#define PRE_C "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define PRE_HEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define PRE_TAIL "[" PRE_WS "]*[\\r\\n]+|[" PRE_WS "]+(?![^" PRE_WS "])|[" PRE_WS "]+"
#define PRE_PUNCT "\\x{20}?[^" PRE_WS "\\p{L}\\p{N}]+"
#define PRE_GPT2 \
    "'(?:[stmd]|re|ve|ll)|\\x{20}?\\p{L}+|\\x{20}?\\p{N}+|" PRE_PUNCT "|[" PRE_WS "]+(?![^" PRE_WS "])"
#define PRE_UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define PRE_LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
// The same without Han characters, as one class each (all categories but the wanted ones, and Han, are ruled out).
#define PRE_UPPER_K "[^\\p{sc:Han}\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}]"
#define PRE_LOWER_K "[^\\p{sc:Han}\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}]"
// The range of the makers, without the white space in it (as the reference engine reads it).
#define PRE_CJK \
    "[\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}" \
    "\\x{3001}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"
// Letters with case in the scripts that the makers of deepseek-llm listed.
#define PRE_CASED \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}" \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}" \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}" \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}" \
    "\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}" \
    "\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}" \
    "\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}" \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}" \
    "\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}" \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}" \
    "\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}" \
    "\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}" \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

#define CH_PRE_GROUP_LIST \
    CH_PRE_GROUP(DEFAULT, "[\\p{P}$+<=>^~|]+", PRE_GPT2, "\\p{N}+", "[0-9]{3}", NULL, NULL) \
    CH_PRE_GROUP(LLAMA3, PRE_C "|" PRE_HEAD "\\p{L}+|\\p{N}{1,3}|" PRE_PUNCT "[\\r\\n]*|" PRE_TAIL, NULL, NULL, NULL, NULL, NULL) \
    CH_PRE_GROUP(QWEN2, PRE_C "|" PRE_HEAD "\\p{L}+|\\p{N}|" PRE_PUNCT "[\\r\\n]*|" PRE_TAIL, NULL, NULL, NULL, NULL, NULL) \
    CH_PRE_GROUP(QWEN35, \
                 PRE_C "|" PRE_HEAD "[\\p{L}\\p{M}]+|\\p{N}|\\x{20}?[^" PRE_WS "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" PRE_TAIL, \
                 NULL, NULL, NULL, NULL, NULL) \
    CH_PRE_GROUP(TEKKEN, \
                 PRE_HEAD "[" PRE_UPPER "]*[" PRE_LOWER "]+|" PRE_HEAD "[" PRE_UPPER "]+[" PRE_LOWER "]*|\\p{N}|" PRE_PUNCT \
                          "[\\r\\n/]*|" PRE_TAIL, \
                 NULL, NULL, NULL, NULL, NULL) \
    CH_PRE_GROUP(GPT4O, \
                 PRE_HEAD "[" PRE_UPPER "]*[" PRE_LOWER "]+(?:" PRE_C ")?|" PRE_HEAD "[" PRE_UPPER "]+[" PRE_LOWER \
                          "]*(?:" PRE_C ")?|\\p{N}{1,3}|" PRE_PUNCT "[\\r\\n/]*|" PRE_TAIL, \
                 NULL, NULL, NULL, NULL, NULL) \
    CH_PRE_GROUP(GPT2, PRE_GPT2, NULL, NULL, NULL, NULL, NULL) \
    CH_PRE_GROUP(STARCODER, "\\p{N}", PRE_GPT2, NULL, NULL, NULL, NULL) \
    CH_PRE_GROUP(FALCON, "[\\p{P}$+<=>^~|`]+", PRE_GPT2, "[0-9]{3}", NULL, NULL, NULL) \
    CH_PRE_GROUP(KIMI, \
                 "\\p{sc:Han}+|" PRE_HEAD PRE_UPPER_K "*" PRE_LOWER_K "+(?:" PRE_C ")?|" PRE_HEAD PRE_UPPER_K "+" PRE_LOWER_K \
                 "*(?:" PRE_C ")?|\\p{N}{1,3}|" PRE_PUNCT "[\\r\\n]*|" PRE_TAIL, \
                 NULL, NULL, NULL, NULL, NULL) \
    CH_PRE_GROUP(DEEPSEEK_LLM, "[\\r\\n]", "[" PRE_WS "]?[" PRE_CASED "]+", \
                 "[" PRE_WS "]?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3001}\\x{3002}]+", \
                 "[" PRE_WS "]+\\z", PRE_CJK, "\\p{N}+") \
    CH_PRE_GROUP(DEEPSEEK_CODER, "[\\r\\n]", "[" PRE_WS "]?\\p{L}+", "[" PRE_WS "]?\\p{P}+", PRE_CJK, "\\p{N}", NULL) \
    CH_PRE_GROUP(DEEPSEEK_V3, "\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+", \
                 "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|\\x{20}?[\\p{P}\\p{S}]+[\\r\\n]*|" \
                 PRE_TAIL, \
                 NULL, NULL, NULL)
