// The public face of the sampling parameters.
#include <math.h>
#include <string.h>

#include "sched/engine.h"

_Static_assert(CH_SAMPLE_N_PARAM <= CHIMERE_SAMPLING_MAX, "raise CHIMERE_SAMPLING_MAX");

bool chimere_sampling_param(size_t i, chimere_param *out) {
    const ch_sample_param *p = ch_sample_param_at(i);
    if (p)
        *out = (chimere_param){p->name, p->is_int, p->min, p->max, p->def, p->help};
    return p != NULL;
}

void chimere_sampling_init(chimere_sampling *s, const chimere_engine *engine) {
    *s = (chimere_sampling){.seed = -1};
    for (size_t i = 0; i < CH_SAMPLE_N_PARAM; i++)
        s->value[i] = ch_sample_param_at(i)->def;
    if (engine)
        *s = engine->sampling;
}

static size_t find_param(const char *name) {
    size_t i = 0;
    while (i < CH_SAMPLE_N_PARAM && strcmp(ch_sample_param_at(i)->name, name) != 0)
        i++;
    return i;
}

int chimere_sampling_set(chimere_sampling *s, const char *name, double value, chimere_error *e) {
    ch_error why = {0};
    size_t i = find_param(name);
    int rc = i == CH_SAMPLE_N_PARAM ? ch_error_set(&why, CH_EUNSUPPORTED, "no sampling parameter is named %.60s", name)
                                    : ch_sample_check_param(i, value, &why);
    if (!rc)
        s->value[i] = value;
    return ch_sched_give_error(e, &why, rc);
}

double chimere_sampling_get(const chimere_sampling *s, const char *name) {
    size_t i = find_param(name);
    return i == CH_SAMPLE_N_PARAM ? (double)NAN : s->value[i];
}
