// The samplers in the order they run, and their parameters. A new sampler is one file and its lines here.
// No include guard: included several times with different definitions of the two macros.
//
// CH_SAMPLER(name): ch_sample_apply_<name> in sample/<name>.c
// CH_SAMPLE_PARAM(name, is_int, min, max, default, key of the model file or NULL, help)

#ifdef CH_SAMPLER
CH_SAMPLER(top_k)
CH_SAMPLER(top_p)
CH_SAMPLER(min_p)
CH_SAMPLER(temperature)
#undef CH_SAMPLER
#endif

#ifdef CH_SAMPLE_PARAM
CH_SAMPLE_PARAM(temperature, false, 0.0, 2.0, 0.6, "general.sampling.temp",
                "randomness of the choice; 0: always the best token")
CH_SAMPLE_PARAM(top_k, true, 0.0, 2147483647.0, 20.0, "general.sampling.top_k", "keep the k best tokens; 0: all")
CH_SAMPLE_PARAM(top_p, false, 0.0, 1.0, 0.95, "general.sampling.top_p",
                "keep the fewest best tokens with this share of probability together; 1: all")
CH_SAMPLE_PARAM(min_p, false, 0.0, 1.0, 0.0, "general.sampling.min_p",
                "keep tokens with at least this share of the best one's probability; 0: all")
#undef CH_SAMPLE_PARAM
#endif
