# sim.mk -- how the simulated GPU is built (included by the Makefile). Everything lies flat in build/sim.
# SPDX-License-Identifier: Apache-2.0

SIM    := $(BUILD)/sim
SIMINC := -Itests/sim/include
simobjs = $(patsubst %.c,$(O)/%.o,$(wildcard $(1)))

$(O)/tests/sim/%.o: tests/sim/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(HIDDEN) $(SIMINC) -c $< -o $@

sim: $(SIM)/libcuda.so.1 $(SIM)/libcudart.so.13 $(SIM)/libnvidia-ml.so.1 $(SIM)/libvgsim_math.so $(SIM)/vgsim-account ## the simulated GPU

# -Bsymbolic-functions: the driver's own pointers must not resolve to a preloaded wrapper, as in the real one.
$(SIM)/libcuda.so.1: $(call simobjs,tests/sim/driver/*.c tests/sim/common/*.c)
	@mkdir -p $(@D)
	$(CC) $(SOFLAGS) -Wl,-Bsymbolic-functions -Wl,-soname,libcuda.so.1 $^ -o $@
$(SIM)/libnvidia-ml.so.1: $(call simobjs,tests/sim/nvml/*.c tests/sim/common/*.c)
	@mkdir -p $(@D)
	$(CC) $(SOFLAGS) -Wl,-Bsymbolic-functions -Wl,-soname,libnvidia-ml.so.1 $^ -o $@
$(SIM)/libcudart.so.13: $(call simobjs,tests/sim/runtime/*.c)
	@mkdir -p $(@D)
	$(CC) $(SOFLAGS) -Wl,-Bsymbolic-functions -Wl,-soname,libcudart.so.13 $^ -o $@
$(SIM)/libvgsim_math.so: $(call simobjs,tests/sim/math/*.c)
	@mkdir -p $(@D)
	$(CC) $(SOFLAGS) -Wl,-soname,libvgsim_math.so $^ -lm -o $@
$(SIM)/vgsim-account: $(call simobjs,tests/sim/account/*.c)
	@mkdir -p $(@D)
	$(CC) $(SANITIZE) $^ -o $@
