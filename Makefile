# chimere: one Makefile. `make` builds ./chimere; `make run` and `make test` set everything up on a fresh Debian.
#   config=release|debug|asan|tsan|fuzz|cover|arm     (objects in build/<config>/; arm: the kernels and their tests, cross-compiled)
config ?= release
B := build/$(config)

CC_release := gcc
CC_debug := gcc
CC_asan := gcc
CC_tsan := gcc
CC_cover := gcc
CC_fuzz := clang
CC_arm := aarch64-linux-gnu-gcc
CC := $(CC_$(config))

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers -Werror
BASE := -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -fno-math-errno -ffp-contract=off -pthread -MMD -MP
FLAGS_release := -O2 -g
FLAGS_arm := -O2 -g
FLAGS_debug := -O1 -g3 -DCH_DEBUG
FLAGS_asan := -O1 -g3 -DCH_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FLAGS_tsan := -O1 -g3 -DCH_DEBUG -fsanitize=thread
FLAGS_cover := -O0 -g3 -DCH_DEBUG --coverage
FLAGS_fuzz := -O1 -g3 -DCH_DEBUG -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
# Sanitizers hide value ranges from gcc, whose warnings then are false alarms: shown, but no errors.
CFLAGS := $(BASE) $(WARN) $(if $(filter asan tsan,$(config)),-Wno-error -Wno-format-truncation) $(FLAGS_$(config))
comma := ,
LDFLAGS := -pthread $(filter -fsanitize=% --coverage,$(subst fuzzer-no-link$(comma),,$(FLAGS_$(config))))
LIBS := $(if $(filter arm,$(config)),,-lmicrohttpd -ljansson -lutf8proc -lpcre2-8 -ledit) -lxxhash -lm

# V=1 shows the commands whole.
Q := $(if $(V),,@)
say = $(if $(V),,@echo '$(1) $@')

# Instruction sets by file suffix; no other file may use them. Kernels are written in the order of their sums; gcc would turn
# integer sums into trees, or put them off, and neither then fits the registers; table look-ups it would gather into vectors.
KEEP_ORDER := $(if $(filter gcc,$(CC)),-fno-tree-reassoc -fno-tree-ter -fno-tree-slp-vectorize -fno-var-tracking-assignments)
ISA_avx2 := -mavx2 -mfma -mf16c $(KEEP_ORDER)
ISA_amx = $(ISA_avx512) -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16
ISA_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma -mf16c $(KEEP_ORDER)
ISA_neon := -march=armv8.2-a+dotprod $(KEEP_ORDER)
# No fuzz target runs a kernel, and clang needs minutes to instrument one.
ISA_CFLAGS = $(if $(filter fuzz,$(config)),$(filter-out -fsanitize=%,$(CFLAGS)),$(CFLAGS))

# Training: plain loops that the compiler turns into vectors, for several instruction sets (CH_TIERS), with the roundings that
# vectors bring.
TRAIN_BLOCKS := $(patsubst %,src/train/%.o,adam attention delta feed gdn head lora noise row rows ssd turn)
TRAIN_CFLAGS := -O3 -fno-trapping-math -fno-signed-zeros -fassociative-math -ffp-contract=fast
$(addprefix $(B)/,$(TRAIN_BLOCKS)) $(B)/real64/%.o: CFLAGS += $(if $(filter fuzz asan tsan debug cover,$(config)),,$(TRAIN_CFLAGS))

# Training in several processes (src/train/ranks.c) takes MPI where Open MPI's compiler wrapper is installed; MPI= builds without. The
# stamp compiles that file again when this changes.
MPI ?= mpicc
MPI_LIBS := $(if $(filter arm fuzz,$(config)),,$(if $(MPI),$(shell $(MPI) --showme:link 2>/dev/null)))
RANKS := $(B)/src/train/ranks.o
ifneq ($(MPI_LIBS),)
$(RANKS): CFLAGS += -DCH_MPI $(patsubst -I%,-isystem %,$(shell $(MPI) --showme:compile))
LIBS += -Wl,--as-needed $(MPI_LIBS) -Wl,--no-as-needed
endif
$(B)/mpi-$(if $(MPI_LIBS),on,off):
	@mkdir -p $(@D) && rm -f $(B)/mpi-* && touch $@
$(RANKS): $(B)/mpi-$(if $(MPI_LIBS),on,off)

# On ARM the AVX2 files are compiled through SIMDe (src/kern/arm/arm.h), but for those that NEON replaces.
ARM := $(findstring aarch64,$(shell $(CC) -dumpmachine))
NOT_ARM := src/kern/x86/init.c src/kern/x86/mat_avx2.c src/kern/x86/panel_%_avx2.c src/kern/x86/peak_avx2.c
ifneq ($(ARM),)
ISA_avx2 := -Isrc/kern/arm/simde $(KEEP_ORDER)
endif
SRC := $(filter-out $(if $(ARM),%_avx512.c %_amx.c $(NOT_ARM),src/kern/arm/%),$(shell find src -name '*.c' | LC_ALL=C sort))
LIB_SRC := $(filter $(if $(filter arm,$(config)),src/base/% src/quant/% src/kern/%,src/%),$(filter-out src/cmd/%,$(SRC)))
CMD_SRC := $(filter src/cmd/%,$(SRC))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CMD_OBJ := $(CMD_SRC:%.c=$(B)/%.o)
UNIT_SRC := $(shell find tests$(if $(filter arm,$(config)),/checkkern) -name 'test_*.c' | LC_ALL=C sort)
UNIT_BIN := $(UNIT_SRC:tests/%.c=$(B)/tests/%)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(FUZZ_SRC:tests/fuzz/%.c=$(B)/fuzz/%)

.DEFAULT_GOAL := all
.PHONY: all lib tests fuzzers deps test check asan-test tsan-test arm-test fuzz cover lint bench run install clean help
all: $(B)/libchimere.a $(if $(CMD_SRC),chimere)
	@:
lib: $(B)/libchimere.a

chimere: $(B)/chimere
	@cp -f $< $@.tmp && mv -f $@.tmp $@

$(B)/libchimere.a: $(LIB_OBJ)
	@rm -f $@ && $(AR) rcs $@ $^

$(B)/chimere: $(CMD_OBJ) $(B)/libchimere.a
	$(call say,link)
	$(Q)$(CC) $(CMD_OBJ) $(B)/libchimere.a $(LDFLAGS) $(LIBS) -o $@

$(B)/%_avx2.o: %_avx2.c
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(ISA_CFLAGS) $(ISA_avx2) -c $< -o $@
$(B)/%_avx512.o: %_avx512.c
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(ISA_CFLAGS) $(ISA_avx512) -c $< -o $@
$(B)/%_neon.o: %_neon.c
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(ISA_CFLAGS) $(ISA_neon) -c $< -o $@
$(B)/%_amx.o: %_amx.c
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(ISA_CFLAGS) $(ISA_amx) -c $< -o $@
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@

# A test is one program: tests/<folder>/test_<name>.c, with cmocka; it may call any outward header.
tests: $(UNIT_BIN) $(if $(filter arm,$(config)),,$(B)/tests/peers/widen_model)
	@:
$(B)/tests/%: tests/%.c $(B)/libchimere.a
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(CFLAGS) -Itests $< $(B)/libchimere.a $(LDFLAGS) -lcmocka $(LIBS) -o $@

# The kernel tests share helpers, and the AVX-512 and AMX files once more, out of AVX2 instructions, but for those that are an AVX2
# body with wider vectors.
NATIVE := peak rows conv delta scan chunk
CHECKKERN := tests/checkkern/tiers.c tests/checkkern/bench.c
EMULATED := $(patsubst %.c,$(B)/emulated/%.o,$(filter src/kern/x86/%_avx512.c src/kern/x86/%_amx.c,\
  $(filter-out $(NATIVE:%=src/kern/x86/%_avx512.c) src/kern/x86/peak_amx.c,$(SRC))))
$(EMULATED): $(B)/emulated/%.o: %.c
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(CFLAGS) $(ISA_avx2) -include tests/checkkern/emulated_avx512.h -c $< -o $@
$(filter $(B)/tests/checkkern/%,$(UNIT_BIN)): $(B)/tests/checkkern/%: tests/checkkern/%.c $(CHECKKERN) \
    $(wildcard tests/checkkern/*.h) $(EMULATED) $(B)/libchimere.a
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS)) -Itests $(filter %.c %.o %.a,$^) $(LDFLAGS) -lcmocka $(LIBS) -o $@

# Gradients: the blocks and the cases once more with double numbers, to hold the library's against.
REAL64 := $(addprefix $(B)/real64/,$(TRAIN_BLOCKS) tests/grad/cases.o)
$(REAL64): $(B)/real64/%.o: %.c
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(CFLAGS) -Itests -DCH_TRAIN_DOUBLE -c $< -o $@
$(filter $(B)/tests/grad/%,$(UNIT_BIN)): $(B)/tests/grad/%: tests/grad/%.c tests/grad/cases.c $(wildcard tests/grad/*.h) $(REAL64) $(B)/libchimere.a
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS)) -Itests $(filter %.c %.o %.a,$^) $(LDFLAGS) -lcmocka $(LIBS) -o $@

# config=fuzz: libFuzzer programs. Every other config: the same harness over its corpus (tests/fuzz/corpus/<name>/).
$(B)/fuzz/%: tests/fuzz/%.c $(B)/libchimere.a
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(CFLAGS) -Itests $< $(if $(filter fuzz,$(config)),-fsanitize=fuzzer,tests/fuzz/replay.c) \
	  $(B)/libchimere.a $(LDFLAGS) $(LIBS) -o $@
fuzzers: $(FUZZ_BIN)
	@:

# ---- what people type ---------------------------------------------------------------------------------------------------
# The steps of test and run must follow each other even under -j, and the compiler may not be there yet when make starts:
# hence the inner makes.
MAKE_INNER := +@$(MAKE) --no-print-directory
deps:
	@tools/install_deps test

test:
	@tools/install_deps test
	$(MAKE_INNER) all tests fuzzers
	@tools/run_tests $(B) $(TESTS)

# The fast subset: unit tests and fuzz corpora of what is already installed; no deps, no scripts.
check:
	$(MAKE_INNER) tests fuzzers
	@tools/run_tests --fast $(B) $(TESTS)

asan-test tsan-test:
	@tools/install_deps test
	$(MAKE_INNER) config=$(@:-test=) $(if $(CMD_SRC),build/$(@:-test=)/chimere) tests fuzzers
	@tools/run_tests build/$(@:-test=) $(TESTS)

# The ARM kernels under an emulator.
arm-test:
	@tools/install_deps arm
	$(MAKE_INNER) config=arm tests
	@tools/run_tests --fast build/arm $(TESTS)

# Every fuzz target for FUZZ_TIME seconds; new inputs stay under build/fuzz/found/, a finding stops with its input's path.
FUZZ_TIME ?= 60
fuzz:
	@tools/install_deps fuzz
	$(MAKE_INNER) config=fuzz fuzzers
	@set -e; for f in $(FUZZ_SRC:tests/fuzz/fuzz_%.c=%); do \
	  mkdir -p build/fuzz/found/$$f; echo "fuzz $$f for $(FUZZ_TIME) s"; \
	  build/fuzz/fuzz/fuzz_$$f -max_total_time=$(FUZZ_TIME) -rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=10 -verbosity=0 \
	    -print_final_stats=1 -artifact_prefix=build/fuzz/$$f- build/fuzz/found/$$f $(wildcard tests/fuzz/corpus)/$$f; done

# Line coverage by folder (gcov comes with gcc).
cover:
	@tools/install_deps test
	$(MAKE_INNER) config=cover $(if $(CMD_SRC),build/cover/chimere) tests
	@find build/cover -name '*.gcda' -delete
	@tools/run_tests --fast build/cover $(TESTS) && tools/cover_report build/cover

lint: lib
	@tools/lint_layers $(B)/libchimere.a

bench: all
	@tools/run_bench ./chimere

# First light: packages, build, a model, a server on 127.0.0.1, one answer. MODEL=file.gguf, PORT=8081, RUN_ONCE=1.
PORT ?= 8081
run:
	@tools/install_deps build
	$(MAKE_INNER) all
	@MODEL='$(MODEL)' PORT='$(PORT)' RUN_ONCE='$(RUN_ONCE)' tools/run_first

# The model that ships, from nothing: corpus, tokenizer, training (hours), export, evaluation. MODELS='mini tiny-mamba2 tiny-nemotron'
MODELS ?= mini
.PHONY: model
model:
	@tools/install_deps test
	$(MAKE_INNER) all
	@tools/make_model $(MODELS)

PREFIX ?= /usr/local
install: all $(B)/libchimere.a
	install -D -m 755 chimere $(DESTDIR)$(PREFIX)/bin/chimere
	install -D -m 644 models/chimere-mini.gguf $(DESTDIR)$(PREFIX)/share/chimere/models/chimere-mini.gguf
	install -D -m 644 $(B)/libchimere.a $(DESTDIR)$(PREFIX)/lib/libchimere.a
	$(if $(wildcard include/chimere.h),install -D -m 644 include/chimere.h $(DESTDIR)$(PREFIX)/include/chimere.h)

.PHONY: compile_commands.json
compile_commands.json:
	@{ sep='['; for f in $(SRC) $(UNIT_SRC) $(FUZZ_SRC); do isa=; case $$f in *_avx2.c) isa='$(ISA_avx2)';; \
	  *_avx512.c) isa='$(ISA_avx512)';; *_amx.c) isa='$(ISA_amx)';; esac; printf '%s\n{"directory":"%s","file":"%s","command":"%s"}' "$$sep" '$(CURDIR)' \
	  "$$f" "$(CC) $(CFLAGS) -Itests $$isa -c $$f"; sep=,; done; echo; echo ']'; } > $@

clean:
	rm -rf build chimere compile_commands.json

help:
	@echo 'make                 ./chimere (config=$(config), objects in $(B)/)'
	@echo 'make run             packages, build, a model (MODEL=file.gguf, or the model that ships), server, first answer'
	@echo 'make test            packages, build, every test (TESTS=part-of-a-name to select)'
	@echo 'make check           fast subset: no packages, no scripts'
	@echo 'make asan-test       the tests under AddressSanitizer and UBSan; make tsan-test: under ThreadSanitizer'
	@echo 'make arm-test        the NEON kernels, cross-compiled, under qemu'
	@echo 'make fuzz            every fuzz target for FUZZ_TIME=60 seconds (clang)'
	@echo 'make cover           line coverage by folder'
	@echo 'make lint            folder layering, size caps, symbol prefixes'
	@echo 'make model           corpus, tokenizer, training (hours; goes on when stopped), evaluation (MODELS=$(MODELS))'
	@echo 'make bench           prefill and decode speed of models with random weights'
	@echo 'make deps            install the missing Debian packages'
	@echo 'make install         PREFIX=$(PREFIX) DESTDIR='
	@echo 'make compile_commands.json | clean'
	@echo 'config=release|debug|asan|tsan|fuzz|cover'

-include $(EMULATED:.o=.d) $(REAL64:.o=.d) $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(wildcard $(B)/tests/*/*.d $(B)/fuzz/*.d)
