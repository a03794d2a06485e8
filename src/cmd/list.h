// Commands, in the order `chimere --help` shows them: one row per file of this folder.
CH_COMMAND(synth, "write a model with random weights and true shapes")
CH_COMMAND(tokenize, "token ids of the text on standard input")
CH_COMMAND(detokenize, "the text of token ids")
