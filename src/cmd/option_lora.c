// --lora and --lora-scale: which adapters, how much each counts.
#include <stdlib.h>

#include "cmd/cmd.h"

bool ch_opt_read_loras(const ch_cmd_options *o, ch_cmd_loras *l) {
    const ch_opt_row *r = ch_opt_get_row(CH_OPT_LORA_SCALE);
    for (l->n = 0; ch_opt_nth(o, CH_OPT_LORA, l->n); l->n++) {
        if (l->n == CH_CMD_MAX_LORAS) {
            ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--lora: at most %d", CH_CMD_MAX_LORAS);
            return false;
        }
        l->path[l->n] = ch_opt_nth(o, CH_OPT_LORA, l->n), l->scale[l->n] = 1;
    }
    for (int i = 0; ch_opt_nth(o, CH_OPT_LORA_SCALE, i); i++) {
        const char *s = ch_opt_nth(o, CH_OPT_LORA_SCALE, i);
        char *end;
        const double v = strtod(s, &end);
        if (end == s || *end || !(v >= r->min && v <= r->max)) {
            ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--%s: expected a number from %.0f to %.0f, found \"%.32s\"", r->name, r->min, r->max, s);
            return false;
        }
        if (i == l->n) {
            ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--%s: more of them than of --lora", r->name);
            return false;
        }
        l->scale[i] = (float)v;
    }
    return true;
}
