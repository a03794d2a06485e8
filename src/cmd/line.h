// One line of input from the user: edited with history on a terminal, plain from a pipe or file.
#ifndef CH_CMD_LINE_H
#define CH_CMD_LINE_H

#include "base/base.h"

typedef struct ch_cmd_line ch_cmd_line;
// NULL: no memory. On a terminal the history of earlier runs is read from the user's state folder.
ch_cmd_line *ch_cmd_line_open(void);
void ch_cmd_line_close(ch_cmd_line **l); // keeps the history
bool ch_cmd_line_is_terminal(const ch_cmd_line *l);
// Reads a line without its end into out (reset first); a backslash at the end joins the next line with a line break.
// Returns 1, 0 at the end of input, or 2 when the user dropped the line (Ctrl-C).
int ch_cmd_line_read(ch_cmd_line *l, const char *prompt, ch_buf *out);

#endif
