// Every option of every command: CH_OPTION(id, name, letter, type, scope, min, max, default, value, help).
// The name is the flag (--name), the config-file key (name = value) and, in capitals with underscores, the variable
// (CHIMERE_NAME) of settings; inputs are flags only. Commands pick rows: names and letters are unique within a command,
// names of settings everywhere.

// every command
CH_OPTION(HELP, "help", 'h', BOOL, INPUT, 0, 0, NULL, NULL, "show this help")
CH_OPTION(CONFIG, "config", 0, TEXT, SETTING, 0, 0, NULL, "FILE", "read settings from FILE (lines: name = value)")
CH_OPTION(VERBOSE, "verbose", 'v', BOOL, SETTING, 0, 0, NULL, NULL, "say more on stderr")
CH_OPTION(QUIET, "quiet", 'q', BOOL, SETTING, 0, 0, NULL, NULL, "only errors on stderr, no progress")

// model and machine
CH_OPTION(MODEL, "model", 'm', TEXT, SETTING, 0, 0, NULL, "FILE", "GGUF file; without it the shipped small model")
CH_OPTION(THREADS, "threads", 't', INT, SETTING, 0, 256, "0", "N", "worker threads; 0: physical cores")
CH_OPTION(TIER, "tier", 0, CHOICE, SETTING, 0, 0, NULL, "ref|avx2|avx512|amx|neon", "kernel tier; without it the best this processor has")
CH_OPTION(CTX, "ctx", 'c', INT, SETTING, 0, 16777216, "0", "N", "positions per sequence; 0: what the model was trained for, at most 4096")
CH_OPTION(BATCH, "batch", 'b', INT, SETTING, 0, 65536, "0", "N", "most tokens of one step; 0: 512")
CH_OPTION(KV_TYPE_K, "kv-type-k", 0, CHOICE, SETTING, 0, 0, "f32", "f32|f16|bf16|q8_0|q4_0|tq4|tq3", "type of the cached keys")
CH_OPTION(KV_TYPE_V, "kv-type-v", 0, CHOICE, SETTING, 0, 0, "f32", "f32|f16|bf16|q8_0|q4_0|tq4|tq3", "type of the cached values")
CH_OPTION(KV_HADAMARD, "kv-hadamard", 0, BOOL, SETTING, 0, 0, "yes", NULL, "rotate quantised keys and values (--no-kv-hadamard: less exact)")
CH_OPTION(STATE_TYPE, "state-type", 0, CHOICE, SETTING, 0, 0, "f32", "f32|bf16", "type of the recurrent states; bf16 halves them and rounds behind every token")
CH_OPTION(PREFILL_FORM, "prefill-form", 0, CHOICE, SETTING, 0, 0, "sequential", "sequential|chunk", "how recurrent layers read prompts; chunk: 64 positions at once, results depend on cuts")
CH_OPTION(REPACK, "repack", 0, BOOL, SETTING, 0, 0, "yes", NULL, "pack weights for the tier at load (--no-repack saves memory)")
CH_OPTION(PANEL_CACHE, "panel-cache", 0, TEXT, SETTING, 0, 0, NULL, "DIR", "keep packed weights in DIR, so that the next start maps them")
CH_OPTION(PANEL_CACHE_SIZE, "panel-cache-size", 0, INT, SETTING, 0, 1125899906842624, "0", "BYTES", "most bytes in DIR: what was used longest ago goes; 0: no limit")
CH_OPTION(LORA, "lora", 0, TEXT, SETTING, 0, 0, NULL, "FILE", "low-rank adapter (GGUF) for the model; may be given several times")
CH_OPTION(LORA_SCALE, "lora-scale", 0, TEXT, SETTING, -1000, 1000, NULL, "X", "how much it counts, 1 without; given again: of the next adapter")
CH_OPTION(SLOTS, "slots", 0, INT, SETTING, 1, 64, "4", "N", "requests computed side by side")

// sampling; without a value what the model file asks for, else the sampler's own default
CH_OPTION(N, "max-tokens", 'n', INT, SETTING, -1, 16777216, "-1", "N", "most tokens to generate; -1: until the context is full")
CH_OPTION(TEMP, "temp", 0, NUM, SETTING, 0, 2, NULL, "X", "temperature; 0: always the likeliest token")
CH_OPTION(TOP_K, "top-k", 0, INT, SETTING, 0, 1048576, NULL, "N", "keep the N likeliest tokens; 0: all")
CH_OPTION(TOP_P, "top-p", 0, NUM, SETTING, 0, 1, NULL, "X", "keep the likeliest tokens that reach X together; 1: all")
CH_OPTION(MIN_P, "min-p", 0, NUM, SETTING, 0, 1, NULL, "X", "drop tokens below X times the likeliest; 0: none")
CH_OPTION(SEED, "seed", 's', INT, SETTING, 0, 9007199254740992, NULL, "N", "seed of the random choice; without it a new one each time")
CH_OPTION(STOP, "stop", 0, TEXT, INPUT, 0, 0, NULL, "TEXT", "end the answer before this text; may be given several times")

// run, trace, logits
CH_OPTION(PROMPT, "prompt", 'p', TEXT, INPUT, 0, 0, NULL, "TEXT", "the prompt, special tokens such as <|im_start|> included")
CH_OPTION(PROMPT_FILE, "prompt-file", 'f', TEXT, INPUT, 0, 0, NULL, "FILE", "read the prompt from FILE; -: standard input")
CH_OPTION(SHOW_SPECIAL, "special", 0, BOOL, INPUT, 0, 0, NULL, NULL, "show special tokens too")
CH_OPTION(JSON, "json", 0, BOOL, INPUT, 0, 0, NULL, NULL, "print one JSON object")
CH_OPTION(TOKENS, "tokens", 0, TEXT, INPUT, 0, 0, NULL, "1,2,3", "token ids instead of a text")
CH_OPTION(OUT, "out", 'o', TEXT, INPUT, 0, 0, NULL, "FILE", "file to write")
CH_OPTION(CHUNK, "chunk", 0, INT, INPUT, 0, 65536, "0", "N", "tokens per step; 0: as many as --batch allows")
CH_OPTION(ALL, "all", 0, BOOL, INPUT, 0, 0, NULL, NULL, "every position, not only the last")

// perplexity
CH_OPTION(DRAFTS, "drafts", 0, BOOL, INPUT, 0, 0, "yes", NULL, "try the drafts of the multi-token prediction block too (--no-drafts: faster)")
CH_OPTION(LIMIT, "limit", 0, INT, INPUT, 0, 1099511627776, "0", "N", "begin no text after N counted tokens of a file; 0: all")

// chat
CH_OPTION(SYSTEM, "system", 0, TEXT, SETTING, 0, 0, NULL, "TEXT", "system message")
CH_OPTION(THINK, "think", 0, BOOL, SETTING, 0, 0, "yes", NULL, "let the model think first (--no-think: answer at once)")

// serve
CH_OPTION(HOST, "host", 0, TEXT, SETTING, 0, 0, "127.0.0.1", "ADDRESS", "address to listen on; 0.0.0.0: every network")
CH_OPTION(PORT, "port", 0, INT, SETTING, 0, 65535, "8081", "N", "port to listen on; 0: any free one")
CH_OPTION(API_KEY, "api-key", 0, TEXT, SETTING, 0, 0, NULL, "KEY", "ask clients for this key (Authorization: Bearer KEY)")
CH_OPTION(NAME, "name", 0, TEXT, SETTING, 0, 0, NULL, "NAME", "model name shown to clients; without it the file's name")
CH_OPTION(ANY_MODEL, "any-model", 0, BOOL, SETTING, 0, 0, NULL, NULL, "answer requests for any model name, not only for this model's")
CH_OPTION(CORS, "cors-origin", 0, TEXT, SETTING, 0, 0, NULL, "ORIGIN", "let web pages of ORIGIN use the server; *: any page")
CH_OPTION(MAX_BODY, "max-body", 0, INT, SETTING, 1024, 1073741824, "16m", "BYTES", "largest request body")
CH_OPTION(QUEUE, "queue", 0, INT, SETTING, 1, 4096, "64", "N", "requests that may wait for a slot; more are refused (429)")
CH_OPTION(REQUEST_TIMEOUT, "request-timeout", 0, INT, SETTING, 0, 86400, "0", "SECONDS", "end an answer after this long; 0: never")

// bench
CH_OPTION(BENCH_PREFILL, "prefill", 'p', TEXT, INPUT, 0, 1048576, "512", "N[,N]", "prompt tokens; several make several rows")
CH_OPTION(BENCH_DECODE, "decode", 'n', INT, INPUT, 0, 1048576, "128", "N", "tokens to generate")
CH_OPTION(BENCH_SLOTS, "slots", 0, TEXT, INPUT, 1, 64, "1", "N[,N]", "sequences decoded side by side")
CH_OPTION(BENCH_DEPTH, "depth", 0, TEXT, INPUT, 0, 1048576, "0", "N[,N]", "tokens already in the context before each measure")
CH_OPTION(BENCH_FILL, "fill", 0, BOOL, INPUT, 0, 0, NULL, NULL, "compute only 512 tokens of each depth and copy them over the rest")
CH_OPTION(BENCH_SUBSETS, "subsets", 0, BOOL, INPUT, 0, 0, NULL, NULL, "also decode every pair and triple of the first 8 slots")
CH_OPTION(CSV, "csv", 0, BOOL, INPUT, 0, 0, NULL, NULL, "print comma-separated values, a line for each row")
CH_OPTION(REPEATS, "repeats", 'r', INT, INPUT, 1, 1000, "3", "N", "repeats; the median counts")

// synth
CH_OPTION(SYNTH_PRESET, "preset", 0, TEXT, INPUT, 0, 0, "tiny", "NAME", "tiny, bench or a released size")
CH_OPTION(SYNTH_TYPE, "type", 0, TEXT, INPUT, 0, 0, "q8_0", "TYPE", "tensor type of the matrices: f32, f16, q8_0, q4_k, iq3_s, ...")
CH_OPTION(N_LAYER, "n-layer", 0, INT, INPUT, 1, 512, NULL, "N", "layers")
CH_OPTION(N_EMBD, "n-embd", 0, INT, INPUT, 8, 65536, NULL, "N", "width")
CH_OPTION(N_HEAD, "n-head", 0, INT, INPUT, 1, 1024, NULL, "N", "attention heads")
CH_OPTION(N_HEAD_KV, "n-head-kv", 0, INT, INPUT, 1, 1024, NULL, "N", "heads of keys and values")
CH_OPTION(D_HEAD, "d-head", 0, INT, INPUT, 4, 1024, NULL, "N", "width of an attention head")
CH_OPTION(N_ROT, "n-rot", 0, INT, INPUT, 2, 1024, NULL, "N", "rotated part of a head")
CH_OPTION(N_VOCAB, "n-vocab", 0, INT, INPUT, 265, 1048576, NULL, "N", "tokens")
CH_OPTION(N_CTX, "n-ctx", 0, INT, INPUT, 1, 16777216, NULL, "N", "context length written to the file")
CH_OPTION(N_FF, "n-ff", 0, INT, INPUT, 1, 262144, NULL, "N", "width of the dense feed-forward")
CH_OPTION(N_EXPERT, "n-expert", 0, INT, INPUT, 1, 1024, NULL, "N", "experts")
CH_OPTION(N_EXPERT_USED, "n-expert-used", 0, INT, INPUT, 1, 1024, NULL, "N", "experts used for a token")
CH_OPTION(N_FF_EXP, "n-ff-exp", 0, INT, INPUT, 1, 262144, NULL, "N", "width of an expert")
CH_OPTION(N_FF_SHEXP, "n-ff-shexp", 0, INT, INPUT, 1, 262144, NULL, "N", "width of the shared expert")
CH_OPTION(SSM_HEADS_K, "ssm-heads-k", 0, INT, INPUT, 1, 1024, NULL, "N", "key heads of the delta net")
CH_OPTION(SSM_HEADS_V, "ssm-heads-v", 0, INT, INPUT, 1, 1024, NULL, "N", "value heads of the delta net (a multiple of the key heads)")
CH_OPTION(SSM_D_STATE, "ssm-d-state", 0, INT, INPUT, 1, 1024, NULL, "N", "width of a delta net head")
CH_OPTION(SSM_CONV, "ssm-conv", 0, INT, INPUT, 2, 16, NULL, "N", "taps of the convolution")
CH_OPTION(ATTN_INTERVAL, "attn-interval", 0, INT, INPUT, 1, 512, NULL, "N", "every N-th layer is attention")
CH_OPTION(N_NEXTN, "nextn", 0, INT, INPUT, 0, 1, NULL, "N", "blocks of multi-token prediction behind the layers (qwen35 families)")
CH_OPTION(ROPE_BASE, "rope-base", 0, NUM, INPUT, 1, 1000000000000, NULL, "X", "base of the rotary positions")
CH_OPTION(TIED, "tied", 0, BOOL, INPUT, 0, 0, NULL, NULL, "use the embedding as the output matrix too (--no-tied: two matrices)")

// tokenize, detokenize
CH_OPTION(PARSE_SPECIAL, "special", 0, BOOL, INPUT, 0, 0, NULL, NULL, "spellings of special tokens become those tokens")
CH_OPTION(ADD_BOS, "bos", 0, BOOL, INPUT, 0, 0, NULL, NULL, "add the begin and end tokens that the file asks for")
CH_OPTION(TEXT_LINES, "batch", 0, BOOL, INPUT, 0, 0, NULL, NULL, "many texts: JSON strings and JSON arrays of ids, one a line")

// template
CH_OPTION(TEMPLATE, "template", 0, TEXT, INPUT, 0, 0, NULL, "FILE", "Jinja file instead of the model's own template")
CH_OPTION(TEMPLATE_JSON, "json", 0, TEXT, INPUT, 0, 0, NULL, "FILE", "messages (array) or variables (object) as JSON; -: standard input")
CH_OPTION(GENERATION_PROMPT, "generation-prompt", 0, BOOL, INPUT, 0, 0, "yes", NULL, "end with the beginning of an answer")
CH_OPTION(NOW, "now", 0, INT, INPUT, 0, 253402300799, "0", "SECONDS", "time that the template sees, since 1970; 0: the clock")
CH_OPTION(SPANS, "spans", 0, BOOL, INPUT, 0, 0, NULL, NULL, "print JSON: the text and which bytes are the template's own")
CH_OPTION(TEMPLATE_LINES, "batch", 0, BOOL, INPUT, 0, 0, NULL, NULL, "many renders: a line of JSON in, a line with text or error out")

// tokenizer-train
CH_OPTION(BPE_VOCAB, "vocab", 0, INT, INPUT, 257, 1048576, "4096", "N", "tokens in all, special ones included")
CH_OPTION(BPE_PRE, "pre", 0, TEXT, INPUT, 0, 0, "qwen35", "NAME", "pre-tokenizer (tokenizer.ggml.pre): how text is cut into words")
CH_OPTION(BPE_CONTROL, "control", 0, TEXT, INPUT, 0, 0, NULL, "TOKEN", "a control token; may be given several times")
CH_OPTION(BPE_TAG, "tag", 0, TEXT, INPUT, 0, 0, NULL, "TOKEN", "a token that is kept whole in text; may be given several times")
CH_OPTION(BPE_EOS, "eos", 0, TEXT, INPUT, 0, 0, NULL, "TOKEN", "the token that ends an answer; without it the last control token")
CH_OPTION(BPE_PAD, "pad", 0, TEXT, INPUT, 0, 0, NULL, "TOKEN", "the token that ends a text; without it the first control token")
CH_OPTION(BPE_TEMPLATE, "template", 0, TEXT, INPUT, 0, 0, NULL, "FILE", "chat template (Jinja): renders chats, and is stored too")

// train
CH_OPTION(TRAIN_OUT, "run", 0, TEXT, INPUT, 0, 0, NULL, "DIR", "folder of the run, instead of the configuration's")
CH_OPTION(TRAIN_STEPS, "steps", 0, INT, INPUT, 1, 1000000000, NULL, "N", "stop after step N, instead of the configuration's last")
CH_OPTION(TRAIN_RESTART, "restart", 0, BOOL, INPUT, 0, 0, NULL, NULL, "begin anew where a checkpoint is")
CH_OPTION(TRAIN_MPI, "mpi", 0, BOOL, INPUT, 0, 0, NULL, NULL, "share the rows with the other processes that mpirun started")
CH_OPTION(TRAIN_EXPORT, "export", 0, TEXT, INPUT, 0, 0, NULL, "FILE", "write the checkpoint's model as GGUF and end")
CH_OPTION(TRAIN_TYPE, "type", 0, TEXT, INPUT, 0, 0, "f16", "TYPE", "type of its matrices: f32, f16, bf16, q8_0")
CH_OPTION(TRAIN_AVERAGE, "average", 0, BOOL, INPUT, 0, 0, NULL, NULL, "with --export: the running average of the weights")
CH_OPTION(TRAIN_MERGE, "merge", 0, BOOL, INPUT, 0, 0, NULL, NULL, "with --export of adapters: the whole model with them added")
CH_OPTION(TRAIN_KEYS, "keys", 0, BOOL, INPUT, 0, 0, NULL, NULL, "list what a configuration may hold")
