// Architectures: the name in general.architecture, and the ch_arch that handles it (arch/<family>.c). No include guard.
CH_ARCH_ROW(ch_arch_llama)
CH_ARCH_ROW(ch_arch_qwen35)
CH_ARCH_ROW(ch_arch_qwen35moe)
CH_ARCH_ROW(ch_arch_qwen3next)
