# Makefile -- everything is built out of tree, in build/. `make help` lists the targets.
# SPDX-License-Identifier: Apache-2.0
#
# One rule per kind of thing; sources are found by wildcard, so a new file needs no line here.

CC       ?= gcc
BUILD    ?= build
PREFIX   ?= /usr/local
PYTHON   ?= python3
WERROR   ?=
SANITIZE ?=
OPT      ?= -O2 -g

WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 $(WERROR)
BASE     = -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) $(SANITIZE) -MMD -MP -I. -fno-omit-frame-pointer
HIDDEN  := -fPIC -fvisibility=hidden
# A sanitizer's runtime is in the program that loads the library (clang), so a library can't resolve all its symbols then.
SOFLAGS  = -shared $(if $(SANITIZE),,-Wl,-z,defs) -Wl,-z,relro,-z,now $(SANITIZE)

O := $(BUILD)/obj
objs = $(patsubst %,$(O)/%.o,$(basename $(1)))

CORE_SRC := $(wildcard core/*.c core/analysis/*.c)
LIB_SRC  := $(wildcard interpose/*.c interpose/*.S)
TOOL_SRC := $(wildcard tools/*.c)

.DEFAULT_GOAL := all
all: lib tool sim examples ## build the library, the tool, the simulated GPU and the examples

# --- objects -----------------------------------------------------------------------------------
$(O)/core/%.o: core/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(HIDDEN) -c $< -o $@
$(O)/interpose/%.o: interpose/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(HIDDEN) -ftls-model=initial-exec -fexceptions -c $< -o $@
$(O)/interpose/%.o: interpose/%.S
	@mkdir -p $(@D)
	$(CC) $(BASE) $(HIDDEN) -c $< -o $@
$(O)/tools/%.o: tools/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE) -c $< -o $@

# --- products ----------------------------------------------------------------------------------
$(BUILD)/libvgcore.a: $(call objs,$(CORE_SRC))
	@rm -f $@
	ar rcs $@ $^
lib: $(BUILD)/libvramguard.so ## the preload library
$(BUILD)/libvramguard.so: $(call objs,$(LIB_SRC)) $(BUILD)/libvgcore.a
	$(CC) $(SOFLAGS) -Wl,-z,nodelete -Wl,-Bsymbolic-functions -Wl,--exclude-libs,ALL -Wl,-soname,libvramguard.so $^ -o $@
tool: $(BUILD)/vramguard ## the command line tool
TOOL_LIBS := -ldw -lelf -ljson-c -lm -ldl
$(BUILD)/libvgtool.a: $(call objs,$(filter-out tools/main.c,$(TOOL_SRC)))
	@rm -f $@
	ar rcs $@ $^
$(BUILD)/vramguard: $(O)/tools/main.o $(BUILD)/libvgtool.a $(BUILD)/libvgcore.a
	$(CC) $(SANITIZE) $^ $(TOOL_LIBS) -o $@

# --- the simulated GPU -------------------------------------------------------------------------
include tests/sim/sim.mk
include tests/bench/bench.mk

# --- examples ----------------------------------------------------------------------------------
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*.c))
examples: $(EXAMPLES) ## the example programs
SIM_INC := tests/sim/include
$(BUILD)/examples/%: examples/%.c $(BUILD)/sim/libcudart.so.13 $(BUILD)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 -g -fno-omit-frame-pointer -I$(SIM_INC) $< -o $@ \
	    -Wl,--no-as-needed $(if $(filter driver_%,$*),$(BUILD)/sim/libcuda.so.1,$(BUILD)/sim/libcudart.so.13) \
	    -Wl,-rpath-link,$(BUILD)/sim

# --- unit tests and fuzzers --------------------------------------------------------------------
# RUN is put in front of every test (qemu-user). FUZZ_SECONDS: how long each fuzzer runs.
RUN          ?=
FUZZ_SECONDS ?= 5
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))
FUZZ := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libvgcore.a
	@mkdir -p $(@D)
	$(CC) $(BASE) $< $(BUILD)/libvgcore.a -lcmocka -ldl -lpthread -o $@
# Tests of the tool's own parts are those that include them.
TOOL_UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(shell grep -sl '^#include "tools/' tests/unit/test_*.c))
$(TOOL_UNIT): $(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libvgtool.a $(BUILD)/libvgcore.a
	@mkdir -p $(@D)
	$(CC) $(BASE) $< $(BUILD)/libvgtool.a $(BUILD)/libvgcore.a $(TOOL_LIBS) -lcmocka -o $@
unit: $(UNIT) sim ## the unit and property tests
	@failed=; for test in $(UNIT); do \
	    echo "--- $$test"; \
	    LD_LIBRARY_PATH=$(SIM) BUILD=$(BUILD) $(RUN) $$test || failed="$$failed $$test"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }
# The same fuzz target in two programs: with the driver of its own, for every compiler, and with libFuzzer, for clang.
$(BUILD)/tests/fuzz/%: tests/fuzz/%.c tests/fuzz/driver.c $(BUILD)/libvgcore.a
	@mkdir -p $(@D)
	$(CC) $(BASE) $< tests/fuzz/driver.c $(BUILD)/libvgcore.a -o $@
fuzz-smoke: $(FUZZ) ## damaged records and random text for a few seconds
	@for fuzz in $(FUZZ); do echo "--- $$fuzz"; $(RUN) $$fuzz $(FUZZ_SECONDS) || exit 1; done
$(BUILD)/tests/libfuzzer/%: tests/fuzz/%.c $(wildcard core/*.c core/*.h)
	@mkdir -p $(@D)
	clang -std=c11 -D_GNU_SOURCE -O1 -g -I. -fsanitize=fuzzer,address,undefined $(filter %.c,$^) -o $@

# --- what a fresh machine types ----------------------------------------------------------------
# LEVEL=ci also installs what .ci/run and bench need. TORCH=0 goes without torch. BUILD names another build directory.
export BUILD TORCH
LEVEL ?= check
deps: ## install what is missing (apt, and torch into build/venv)
	@bash tools/check/deps.sh $(LEVEL) --torch
demo: ## a training run into its out-of-memory report, on this machine's GPU or a simulated one
	@bash tools/check/deps.sh demo --torch
	@$(MAKE) --no-print-directory -s all
	@bash tools/check/demo.sh
check: deps ## every test that needs nothing special
	@$(MAKE) --no-print-directory all
	@python3 tools/check/suite.py check
gates: ## the repository's own rules (tools/check/gates/)
	@bash tools/check/gates.sh
e2e: all ## whole programs under the guard
	@python3 tools/check/suite.py e2e
bench: ## the budget, as ratios in one run
	@bash tools/check/deps.sh bench
	@$(MAKE) --no-print-directory -s all bench-programs
	@python3 tests/bench/bench.py
format: ## clang-format on every C file (tables are laid out by hand)
	clang-format -i $$(git ls-files '*.c' '*.h')

DOC_PAGES := options.md=--markdown-options hooks.md=--markdown-hooks vramguard.1=--man
docs: tool ## make the generated pages of docs/ again
	@for page in $(DOC_PAGES); do $(BUILD)/vramguard help $${page#*=} >docs/$${page%=*} || exit 1; done

INSTALL := install -D
install: lib tool sim ## into DESTDIR/PREFIX
	$(INSTALL) $(BUILD)/vramguard $(DESTDIR)$(PREFIX)/bin/vramguard
	$(INSTALL) -m 644 $(BUILD)/libvramguard.so $(DESTDIR)$(PREFIX)/lib/libvramguard.so
	for file in $(BUILD)/sim/*; do \
	    case $$file in *.a) mode=644 ;; *) mode=755 ;; esac; \
	    $(INSTALL) -m $$mode $$file $(DESTDIR)$(PREFIX)/lib/vramguard/sim/$${file##*/} || exit 1; \
	done
	$(INSTALL) -m 644 LICENSE $(DESTDIR)$(PREFIX)/share/doc/vramguard/LICENSE
	for page in README.md docs/*.md; do $(INSTALL) -m 644 $$page $(DESTDIR)$(PREFIX)/share/doc/vramguard/$$page || exit 1; done
	for page in docs/*.1; do $(INSTALL) -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man1/$${page##*/} || exit 1; done
	for header in $(wildcard interpose/vramguard.h); do $(INSTALL) -m 644 $$header $(DESTDIR)$(PREFIX)/include/vramguard.h || exit 1; done

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  %-12s %s\n", $$1, $$2}'
clean: ## remove what was built (the Python environment stays)
	rm -rf $(O) $(BUILD)/libvgcore.a $(BUILD)/libvramguard.so $(BUILD)/vramguard $(BUILD)/sim $(BUILD)/examples $(BUILD)/tests

-include $(shell find $(O) $(BUILD)/tests -name '*.d' 2>/dev/null)
.PHONY: all lib tool sim examples help clean unit fuzz-smoke deps demo check gates e2e bench format docs install
