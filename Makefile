# chimere: one Makefile. `make` builds ./chimere; `make run` and `make test` set everything up on a fresh Debian.
#   config=release|debug|asan|tsan|fuzz|cover     (objects in build/<config>/)
config ?= release
B := build/$(config)

CC_release := gcc
CC_debug := gcc
CC_asan := gcc
CC_tsan := gcc
CC_cover := gcc
CC_fuzz := clang
CC := $(CC_$(config))

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
BASE := -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -fno-math-errno -ffp-contract=off -pthread -MMD -MP
FLAGS_release := -O2 -g
FLAGS_debug := -O1 -g3 -DCH_DEBUG
FLAGS_asan := -O1 -g3 -DCH_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FLAGS_tsan := -O1 -g3 -DCH_DEBUG -fsanitize=thread
FLAGS_cover := -O0 -g3 -DCH_DEBUG --coverage
FLAGS_fuzz := -O1 -g3 -DCH_DEBUG -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
CFLAGS := $(BASE) $(WARN) $(FLAGS_$(config))
comma := ,
LDFLAGS := -pthread $(filter -fsanitize=% --coverage,$(subst fuzzer-no-link$(comma),,$(FLAGS_$(config))))
LIBS := -lmicrohttpd -ljansson -lutf8proc -lpcre2-8 -ledit -lxxhash -lm

# Instruction sets by file suffix; no other file may use them.
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mfma -mf16c

SRC := $(shell find src -name '*.c' | LC_ALL=C sort)
LIB_SRC := $(filter-out src/cmd/%,$(SRC))
CMD_SRC := $(filter src/cmd/%,$(SRC))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CMD_OBJ := $(CMD_SRC:%.c=$(B)/%.o)
UNIT_SRC := $(shell find tests -name 'test_*.c' | LC_ALL=C sort)
UNIT_BIN := $(UNIT_SRC:tests/%.c=$(B)/tests/%)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(FUZZ_SRC:tests/fuzz/%.c=$(B)/fuzz/%)

.DEFAULT_GOAL := all
.PHONY: all lib tests clean
all: chimere
lib: $(B)/libchimere.a

chimere: $(B)/chimere
	@cp -f $< $@.tmp && mv -f $@.tmp $@

$(B)/libchimere.a: $(LIB_OBJ)
	@rm -f $@ && $(AR) rcs $@ $^

$(B)/chimere: $(CMD_OBJ) $(B)/libchimere.a
	$(CC) $(CMD_OBJ) $(B)/libchimere.a $(LDFLAGS) $(LIBS) -o $@

$(B)/%_avx2.o: %_avx2.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(ISA_avx2) -c $< -o $@
$(B)/%_avx512.o: %_avx512.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(ISA_avx512) -c $< -o $@
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c $< -o $@

# A test is one program: tests/<folder>/test_<name>.c, with cmocka; it may call any outward header.
tests: $(UNIT_BIN)
$(B)/tests/%: tests/%.c $(B)/libchimere.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests $< $(B)/libchimere.a $(LDFLAGS) -lcmocka $(LIBS) -o $@

# config=fuzz: libFuzzer programs. Every other config: the same harness over its corpus (tests/fuzz/corpus/<name>/).
$(B)/fuzz/%: tests/fuzz/%.c $(B)/libchimere.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests $< $(if $(filter fuzz,$(config)),-fsanitize=fuzzer,tests/fuzz/replay.c) \
	  $(B)/libchimere.a $(LDFLAGS) $(LIBS) -o $@
fuzzers: $(FUZZ_BIN)

clean:
	rm -rf build chimere

-include $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d)
