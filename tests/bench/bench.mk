# bench.mk -- the programs that `make bench` runs (included by the Makefile).
# SPDX-License-Identifier: Apache-2.0

BENCH := $(BUILD)/tests/bench
BENCH_FLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -Itests/sim/include

bench-programs: $(BENCH)/pair $(BENCH)/live
$(BENCH)/libcuda.so.1: tests/bench/noop_driver.c
	@mkdir -p $(@D)
	$(CC) $(BENCH_FLAGS) -fPIC -fvisibility=hidden -shared -Wl,-soname,libcuda.so.1 $< -o $@
$(BENCH)/%: tests/bench/%.c $(BENCH)/libcuda.so.1
	$(CC) $(BENCH_FLAGS) $< $(BENCH)/libcuda.so.1 -Wl,-rpath,'$$ORIGIN' -o $@
.PHONY: bench-programs
