# SPDX-License-Identifier: BSD-2-Clause
# kvsteer: `make help` lists the targets. Every product goes to .output/.
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.1.0)
PREFIX   ?= /usr/local
CLANG    ?= clang
CC        = gcc
BPFTOOL  ?= $(firstword $(wildcard /usr/sbin/bpftool /sbin/bpftool) bpftool)
OUT      := .output

# SAN=1: the same user code under ASan and UBSan, beside the normal build.
ifeq ($(SAN),1)
B        := $(OUT)/san
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# Lines are all that its reports show; of the tests themselves only compiling takes long.
OPT      := -O1 -g1
$(B)/tests/%.o: OPT := -O0 -g1
else
B        := $(OUT)
OPT      := -O2 -g
# A simulation is nothing but computing.
$(B)/user/sim/%.o: OPT := -O3 -g
endif

ifeq ($(V),1)
Q :=
msg = @true
else
Q := @
msg = @printf '  %-8s %s\n' '$(1)' '$(patsubst $(OUT)/%,%,$(2))'
endif

PKGS     := libbpf libevent libcares libnl-3.0 libnl-route-3.0 libcyaml yaml-0.1 libsystemd yyjson libxxhash
CPPFLAGS += -Iinclude -Iuser -I$(OUT) -D_GNU_SOURCE
CFLAGS   += -std=gnu11 $(OPT) -Wall -Wextra -Werror -fPIC $(SANFLAGS)
LDFLAGS  += $(SANFLAGS)
ifneq ($(MAKECMDGOALS),setup)
LDLIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -lpthread -lresolv
CPPFLAGS += $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
# Engines' events: only for what follows them. Debian 13 has another name for msgpack-c.
EVENTLIBS := $(shell pkg-config --libs libzmq 2>/dev/null) \
	    $(shell pkg-config --libs msgpack-c 2>/dev/null || pkg-config --libs msgpack 2>/dev/null)
endif

ARCH     := $(shell uname -m | sed 's/x86_64/x86/;s/aarch64/arm64/')
# -mcpu=v3: atomics that fetch; clang 14's default is v2.
BPFFLAGS := -target bpf -mcpu=v3 -std=gnu11 -g -O2 -Wall -Wextra -Werror -Wno-unused-parameter \
	    -D__TARGET_ARCH_$(ARCH) -Ivmlinux -Iinclude -Ibpf

srcs      = $(wildcard $(1)/*.c)
objs      = $(patsubst %.c,$(B)/%.o,$(call srcs,$(1)))
LIB_O    := $(call objs,user/lib)
COMMON_O := $(call objs,user/common)
EVENTS_O := $(call objs,user/events)
SIM_O    := $(call objs,user/sim)
TOOLS_O  := $(call objs,tools/common)
ENGINES_O := $(call objs,user/engines)
TOOLS    := $(notdir $(patsubst %/,%,$(dir $(wildcard tools/*/main.c))))
UNITS    := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
FUZZERS  := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
PROGS    := $(patsubst tests/prog/%.c,%,$(wildcard tests/prog/test_*.c))
SKEL     := $(OUT)/kvsteer.skel.h

BINS     := $(if $(wildcard user/agent/main.c),$(B)/kvsteerd) $(if $(wildcard user/cli/main.c),$(B)/kvsteer) \
	    $(addprefix $(B)/kv-,$(TOOLS)) $(if $(wildcard tests/impair/main.c),$(B)/kv-impair)

.PHONY: FORCE all setup demo test soak test-vllm test-fresh test-kernels test-systemd check coverage bench bench-events bench-steering install uninstall clean help units fuzzers progs style format
.DELETE_ON_ERROR:
.SECONDARY:

## all: build everything into .output/
all: $(BINS) $(if $(LIB_O),$(B)/libkvsteer.a $(B)/libkvsteer.so) $(wildcard $(if $(wildcard bpf/kvsteer.bpf.c),$(OUT)/kvsteer.bpf.o))

setup:
	$(Q)tools/setup.sh build

# ---- BPF ----
$(OUT)/%.bpf.o: bpf/%.bpf.c
	$(call msg,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPFFLAGS) -MMD -MP -c $< -o $@
	$(Q)llvm-strip -g $@

# The tests' own.
$(OUT)/tests/%.bpf.o: tests/%.bpf.c
	$(call msg,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPFFLAGS) -MMD -MP -c $< -o $@
	$(Q)llvm-strip -g $@

$(OUT)/%.skel.h: $(OUT)/%.bpf.o
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< >$@

# ---- user code ----
$(B)/%.o: %.c | $(if $(wildcard bpf/kvsteer.bpf.c),$(SKEL))
	$(call msg,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# Compiled anew when the version is another one, and only then.
$(B)/user/common/version.o: CPPFLAGS += -DKVSTEER_VERSION='"$(VERSION)"'
$(B)/user/common/version.o: $(OUT)/version
$(OUT)/version: FORCE
	@mkdir -p $(@D)
	$(Q)echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@

$(B)/libkvsteer.a: $(LIB_O)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/libkvsteer.so: $(LIB_O)
	$(call msg,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libkvsteer.so.0 $(LDFLAGS) $^ -o $@ $(shell pkg-config --libs yyjson libxxhash)

$(B)/libcommon.a: $(COMMON_O)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/libengines.a: $(ENGINES_O)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/libevents.a: $(EVENTS_O)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/libsim.a: $(SIM_O)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/libtools.a: $(TOOLS_O)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/kvsteerd: $(call objs,user/agent) $(B)/libengines.a $(B)/libevents.a $(B)/libcommon.a $(B)/libkvsteer.a
	$(call msg,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LDLIBS) $(EVENTLIBS)
$(B)/kvsteer: $(call objs,user/cli) $(B)/libsim.a $(B)/libcommon.a $(B)/libkvsteer.a
	$(call msg,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LDLIBS) -lz

define TOOL
$$(B)/kv-$(1): $$(call objs,tools/$(1)) $$(B)/libtools.a $$(B)/libevents.a $$(B)/libkvsteer.a
	$$(call msg,LD,$$@)
	$$(Q)$$(CC) $$(LDFLAGS) $$^ -o $$@ $$(LDLIBS)
endef
$(foreach t,$(TOOLS),$(eval $(call TOOL,$(t))))
$(B)/kv-replay: $(B)/libsim.a
$(B)/kv-replay: LDLIBS += -lz
$(B)/kv-engine: $(B)/libcommon.a
$(B)/kv-bench-events $(B)/kv-engine: LDLIBS += $(EVENTLIBS)

# ---- tests ----
IMPAIR_O := $(filter-out %.bpf.o,$(call objs,tests/impair))
$(IMPAIR_O): | $(OUT)/tests/impair/impair.skel.h
$(B)/kv-impair: $(IMPAIR_O)
	$(call msg,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LDLIBS)

# Unit tests are always built with the sanitizers: run `make SAN=1 units`.
units: $(addprefix $(B)/tests/unit/,$(UNITS))
$(B)/tests/unit/test_%: $(B)/tests/unit/test_%.o $(B)/libengines.a $(B)/libevents.a $(B)/libtools.a $(B)/libsim.a \
		$(B)/libcommon.a $(B)/libkvsteer.a
	$(call msg,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LDLIBS) -Wl,--as-needed $(EVENTLIBS) -lz

progs: $(addprefix $(B)/tests/prog/,$(PROGS))
$(PROGS:%=$(B)/tests/prog/%.o): | $(patsubst %.bpf.c,$(OUT)/%.skel.h,$(wildcard tests/prog/*.bpf.c))
$(B)/tests/prog/test_%: $(B)/tests/prog/test_%.o $(B)/libcommon.a $(B)/libkvsteer.a
	$(call msg,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LDLIBS)

FUZZFLAGS = $(CPPFLAGS) -std=gnu11 -g -O1 -Wall -Wextra -Werror -fsanitize=address,undefined \
	    -fno-sanitize-recover=all -MMD -MP
# FUZZ_WITH: what a fuzzer is linked with besides. Not $^, which holds the sources that it includes, too,
# once it has been built.
FUZZ_O   := $(patsubst %.c,$(OUT)/fuzz/%.o,$(call srcs,user/lib))
fuzzers: $(addprefix $(OUT)/fuzz/,$(FUZZERS))
$(OUT)/fuzz/%.o: %.c
	$(call msg,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(FUZZFLAGS) -fsanitize=fuzzer-no-link -c $< -o $@
$(OUT)/fuzz/fuzz_%: tests/fuzz/fuzz_%.c $(FUZZ_O)
	$(call msg,FUZZ,$@)
	$(Q)$(CLANG) $(FUZZFLAGS) -fsanitize=fuzzer -MF $@.d -MT $@ $< $(FUZZ_O) $(FUZZ_WITH) -o $@ $(LDLIBS)
$(OUT)/fuzz/fuzz_events $(OUT)/fuzz/fuzz_polled: \
	FUZZ_WITH := $(filter-out user/events/follow% user/events/frames%,$(call srcs,user/events))
$(OUT)/fuzz/fuzz_events $(OUT)/fuzz/fuzz_polled: $(call srcs,user/events)

## demo: the main job on a real trace: clients, gateway and engines in namespaces (root)
demo:
	$(Q)tools/setup.sh test
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tools/demo.sh

## test: everything that can be tested here (root); ends with one line of counts
test:
	$(Q)tools/setup.sh test
	$(Q)tests/run all

## soak: the long test: SOAK_MINUTES (20) of traffic and faults, then the tests' long forms (root)
soak:
	$(Q)tools/setup.sh test
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tools/soak.sh

## test-vllm: two real vLLM engines (CPU) behind kvsteer: installs 7 GB, then 15 minutes (root)
test-vllm:
	$(Q)tools/setup.sh test
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tools/vllm.sh

## check: the tests that need no root
check:
	$(Q)tools/setup.sh test
	$(Q)tests/run check

## test-fresh: the two README commands in clean Debian 12 and 13 trees (root; long)
test-fresh:
	$(Q)tools/setup.sh fresh
	$(Q)tools/test-fresh.sh

## test-kernels: programs and core test on Debian's 6.1 and 6.12 kernels, in qemu (2 minutes)
test-kernels: all
	$(Q)tools/setup.sh kernels
	$(Q)tools/kernels.sh

## test-systemd: the units under Debian's systemd, in qemu (3 minutes)
test-systemd: all
	$(Q)tools/setup.sh kernels
	$(Q)tools/systemd.sh

## coverage: which lines of the parsers do the tests' inputs run? at least 95 % of each
coverage:
	$(Q)tools/setup.sh test
	$(Q)tools/coverage.sh

## bench: side by side with plain forwarding and with peers (root)
bench:
	$(Q)tools/setup.sh bench
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tools/bench.sh

## bench-events: how fast engines' events are applied, in how much memory, how soon
bench-events:
	$(Q)tools/setup.sh build
	$(Q)$(MAKE) --no-print-directory $(B)/kv-bench-events
	$(Q)$(B)/kv-bench-events -o $(OUT)/bench.json

## bench-steering: steering's goals, one by one, by the simulator (a minute), and docs/steering.md's tables and plots; traces in TRACES
bench-steering: $(OUT)/kvsteer
	$(Q)tools/bench/steering.py $(OUT)/kvsteer $(or $(TRACES),../shared/traces) docs/steering.md

## bench-live: traces as live traffic beside the simulator, 12 minutes (root); traces in TRACES
bench-live:
	$(Q)tools/setup.sh build
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tools/bench/live.sh $(or $(TRACES),../shared/traces)/mooncake-fast25/*_trace.jsonl

## style: clang-format and shellcheck, as CI runs them
style:
	$(Q)clang-format --dry-run -Werror $$(git ls-files '*.c' '*.h')
	$(Q)shellcheck $$(git ls-files '*.sh' tests/run .ci/run)
	$(Q)shellcheck -S warning -e SC1091,SC2164 $$(git ls-files '*.bats' 'tests/bats/*.bash')

## format: rewrite the sources by .clang-format
format:
	$(Q)clang-format -i $$(git ls-files '*.c' '*.h')

## install: under $(DESTDIR)$(PREFIX)
install: all
	install -Dm755 $(OUT)/kvsteerd $(DESTDIR)$(PREFIX)/sbin/kvsteerd
	install -Dm755 $(OUT)/kvsteer $(DESTDIR)$(PREFIX)/bin/kvsteer
	install -Dm644 $(OUT)/libkvsteer.a $(DESTDIR)$(PREFIX)/lib/libkvsteer.a
	install -Dm755 $(OUT)/libkvsteer.so $(DESTDIR)$(PREFIX)/lib/libkvsteer.so.0
	ln -sf libkvsteer.so.0 $(DESTDIR)$(PREFIX)/lib/libkvsteer.so
	install -Dm644 include/kvsteer.h $(DESTDIR)$(PREFIX)/include/kvsteer.h
	mkdir -p $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|;s|@VERSION@|$(VERSION)|' user/lib/kvsteer.pc.in \
		>$(DESTDIR)$(PREFIX)/lib/pkgconfig/kvsteer.pc
	for u in packaging/systemd/*.in; do n=$${u##*/}; \
		install -Dm644 /dev/null $(DESTDIR)$(PREFIX)/lib/systemd/system/$${n%.in}; \
		sed 's|@PREFIX@|$(PREFIX)|' $$u >$(DESTDIR)$(PREFIX)/lib/systemd/system/$${n%.in}; done
	install -Dm644 packaging/systemd/kvsteerd.socket $(DESTDIR)$(PREFIX)/lib/systemd/system/kvsteerd.socket
	install -Dm644 packaging/sysusers/kvsteer.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/kvsteer.conf
	for m in docs/man/*.[1358]; do s=$${m##*.}; \
		install -Dm644 $$m $(DESTDIR)$(PREFIX)/share/man/man$$s/$${m##*/}; done

## uninstall: remove what install put there
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/sbin/kvsteerd $(DESTDIR)$(PREFIX)/bin/kvsteer \
		$(DESTDIR)$(PREFIX)/lib/libkvsteer.a $(DESTDIR)$(PREFIX)/lib/libkvsteer.so* \
		$(DESTDIR)$(PREFIX)/include/kvsteer.h $(DESTDIR)$(PREFIX)/lib/pkgconfig/kvsteer.pc
	rm -f $(DESTDIR)$(PREFIX)/lib/sysusers.d/kvsteer.conf $(DESTDIR)$(PREFIX)/lib/systemd/system/kvsteerd.socket
	for u in packaging/systemd/*.in; do n=$${u##*/}; \
		rm -f $(DESTDIR)$(PREFIX)/lib/systemd/system/$${n%.in}; done
	for m in docs/man/*.[1358]; do s=$${m##*.}; \
		rm -f $(DESTDIR)$(PREFIX)/share/man/man$$s/$${m##*/}; done

clean:
	rm -rf $(OUT)

help:
	@sed -n 's/^## //p' Makefile

# Not in the trees of other systems and of Python: they have .d directories of their own.
-include $(shell find $(OUT) '(' -name 'fresh-*' -o -name 'venv-*' -o -name vllm ')' -prune -o -type f -name '*.d' -print 2>/dev/null)
