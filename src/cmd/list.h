// Commands, in the order `chimere --help` shows them: one row per file of this folder.
