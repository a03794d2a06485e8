// Commands, in the order `chimere --help` shows them: one row per file of this folder.

// use
CH_COMMAND(chat, "talk with a model in the terminal")
CH_COMMAND(run, "complete a prompt")
CH_COMMAND(serve, "answer OpenAI clients over HTTP")

// look inside
CH_COMMAND(info, "metadata, layers, tensors and memory of a model file")
CH_COMMAND(verify, "check a model file: structure, parts, every weight")
CH_COMMAND(tokenize, "turn text into token ids")
CH_COMMAND(detokenize, "turn token ids into text")
CH_COMMAND(template, "show what a chat template makes of messages")
CH_COMMAND(bench, "measure speed, beside what this machine can do")
CH_COMMAND(perplexity, "how well a model predicts texts, and its drafts")
CH_COMMAND(logits, "raw scores of given tokens, for comparisons")
CH_COMMAND(trace, "sums of intermediate tensors, for finding a divergence")

// make
CH_COMMAND(synth, "write a model with random weights and true shapes")
CH_COMMAND(tokenizer_train, "train a tokenizer: byte-level BPE merges from text")
CH_COMMAND(train, "train a model")
