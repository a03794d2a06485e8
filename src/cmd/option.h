// Private to option.c, option_help.c and main.c.
#ifndef CH_CMD_OPTION_H
#define CH_CMD_OPTION_H

#include "cmd/cmd.h"

// Ids of a command's options and of those every command has; id holds CH_OPT_COUNT + 4. Returns how many.
int ch_opt_list_ids(const ch_cmd_spec *spec, int *id);
// "a whole number from 0 to 256"
void ch_opt_describe_range(const ch_opt_row *r, char *out, size_t size);
void ch_cmd_print_help(const ch_cmd_spec *spec, FILE *to);

#endif
