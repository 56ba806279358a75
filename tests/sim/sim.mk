# sim.mk -- how the simulated GPU is built (included by the Makefile). Everything lies flat in build/sim.
# SPDX-License-Identifier: Apache-2.0

SIM    := $(BUILD)/sim
OBJCOPY ?= $(shell $(CC) -print-prog-name=objcopy)
SIMINC := -Itests/sim/include
simobjs = $(patsubst %.c,$(O)/%.o,$(wildcard $(1)))

$(O)/tests/sim/%.o: tests/sim/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE) $(HIDDEN) $(SIMINC) -c $< -o $@

sim: $(SIM)/libcuda.so.1 $(SIM)/libcudart.so.13 $(SIM)/libcudart.so.12 $(SIM)/libcudart_static.a $(SIM)/libnvidia-ml.so.1 $(SIM)/libvgsim_math.so $(SIM)/vgsim-account ## the simulated GPU

# -Bsymbolic-functions: the driver's own pointers must not resolve to a preloaded wrapper, as in the real one.
$(SIM)/libcuda.so.1: $(call simobjs,tests/sim/driver/*.c tests/sim/common/*.c)
	@mkdir -p $(@D)
	$(CC) $(SOFLAGS) -Wl,-Bsymbolic-functions -Wl,-soname,libcuda.so.1 $^ -o $@
$(SIM)/libnvidia-ml.so.1: $(call simobjs,tests/sim/nvml/*.c tests/sim/common/*.c)
	@mkdir -p $(@D)
	$(CC) $(SOFLAGS) -Wl,-Bsymbolic-functions -Wl,-soname,libnvidia-ml.so.1 $^ -o $@
# Three builds of the runtime. The names of the shared ones carry a version, as NVIDIA's do: programs ask for cudaMalloc@libcudart.so.13.
RUNTIME_SRC := $(wildcard tests/sim/runtime/*.c)
runtime_objects = $(patsubst tests/sim/runtime/%.c,$(O)/tests/sim/runtime-$(1)/%.o,$(RUNTIME_SRC))
define runtime_build # name, options
$(O)/tests/sim/runtime-$(1)/%.o: tests/sim/runtime/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(BASE) $$(HIDDEN) $$(SIMINC) $(2) -c $$< -o $$@
endef
define runtime_library # number
$(SIM)/libcudart.so.$(1): $(call runtime_objects,$(1))
	@mkdir -p $$(@D)
	@echo '$$(@F) { global: cuda*; __cuda*; local: *; };' >$(O)/tests/sim/$$(@F).map
	$$(CC) $$(SOFLAGS) -Wl,-Bsymbolic-functions -Wl,--version-script,$(O)/tests/sim/$$(@F).map -Wl,-soname,$$(@F) $$^ -o $$@
endef
$(eval $(call runtime_build,12,-DCUDART_VERSION=12080))
$(eval $(call runtime_build,13,-DCUDART_VERSION=13000))
$(eval $(call runtime_build,static,-DCUDART_VERSION=13000 -DVGSIM_STATIC_RUNTIME -fno-sanitize=all))
$(eval $(call runtime_library,12))
$(eval $(call runtime_library,13))
# Without a sanitizer, which not every program has. One object, in which the runtime's own names are local and its functions stay hidden, as in NVIDIA's.
$(SIM)/libcudart_static.a: $(call runtime_objects,static)
	@mkdir -p $(@D)
	@rm -f $@
	$(CC) -r -nostdlib $^ -o $(O)/tests/sim/cudart_static.o
	$(OBJCOPY) --wildcard --keep-global-symbol='cuda*' --keep-global-symbol='__cuda*' $(O)/tests/sim/cudart_static.o
	ar rcs $@ $(O)/tests/sim/cudart_static.o
$(SIM)/libvgsim_math.so: $(call simobjs,tests/sim/math/*.c)
	@mkdir -p $(@D)
	$(CC) $(SOFLAGS) -Wl,-soname,libvgsim_math.so $^ -lm -o $@
$(SIM)/vgsim-account: $(call simobjs,tests/sim/account/*.c)
	@mkdir -p $(@D)
	$(CC) $(SANITIZE) $^ -o $@
