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
SOFLAGS  = -shared -Wl,-z,defs,-z,relro,-z,now $(SANITIZE)

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
$(BUILD)/vramguard: $(call objs,$(TOOL_SRC)) $(BUILD)/libvgcore.a
	$(CC) $(SANITIZE) $^ -ldw -lelf -o $@

# --- the simulated GPU -------------------------------------------------------------------------
include tests/sim/sim.mk

# --- examples ----------------------------------------------------------------------------------
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*.c))
examples: $(EXAMPLES) ## the example programs
SIM_INC := tests/sim/include
$(BUILD)/examples/%: examples/%.c $(BUILD)/sim/libcudart.so.13 $(BUILD)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 -g -fno-omit-frame-pointer -I$(SIM_INC) $< -o $@ \
	    -Wl,--no-as-needed $(if $(filter driver_%,$*),$(BUILD)/sim/libcuda.so.1,$(BUILD)/sim/libcudart.so.13) \
	    -Wl,-rpath-link,$(BUILD)/sim

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  %-12s %s\n", $$1, $$2}'
clean: ## remove what was built (the Python environment stays)
	rm -rf $(O) $(BUILD)/libvgcore.a $(BUILD)/libvramguard.so $(BUILD)/vramguard $(BUILD)/sim $(BUILD)/examples $(BUILD)/tests

-include $(shell find $(O) $(BUILD)/tests -name '*.d' 2>/dev/null)
.PHONY: all lib tool sim examples help clean
