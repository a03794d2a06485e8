// Commands, in the order `chimere --help` shows them: one row per file of this folder.
CH_COMMAND(synth, "write a model with random weights and true shapes")
