// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "carry.h"
#include "helper.h"
#include "place.h"
#include "tests/impair/impair.skel.h"

#define PINS "/sys/fs/bpf/kv-impair"
#define PRIORITY 7777
#define END_MS 1000 /* the carrier looks for its end 50 times a second */

struct pin {
	char path[96];
};

static int pin_path(const char *device, bool ingress, struct pin *ret_pin)
{
	struct stat ns;

	if (stat("/proc/self/ns/net", &ns))
		return -errno;
	snprintf(ret_pin->path, sizeof(ret_pin->path), PINS "/%lu-%s-%s", (unsigned long)ns.st_ino,
		 device, ingress ? "ingress" : "egress");
	return 0;
}

static int say(const char *device, const char *what, int err)
{
	fprintf(stderr, "kv-impair: %s: %s: %s\n", device, what, strerror(-err));
	return err;
}

static struct impair_state *state_map(int fd)
{
	void *p =
		mmap(NULL, sizeof(struct impair_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct impair_state *state_open(const char *device, bool ingress)
{
	struct impair_state *s;
	struct pin pin;
	int fd;

	if (pin_path(device, ingress, &pin))
		return NULL;
	fd = bpf_obj_get(pin.path);
	if (fd < 0)
		return NULL;
	s = state_map(fd);
	close(fd);
	return s;
}

int place_state(const char *device, bool ingress, struct impair_state *ret_state)
{
	struct impair_state *s = state_open(device, ingress);

	if (!s)
		return -ENOENT;
	*ret_state = *s;
	munmap(s, sizeof(*s));
	return 0;
}

static int filter(int ifindex, bool ingress, int prog)
{
	DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex,
			    .attach_point = ingress ? BPF_TC_INGRESS : BPF_TC_EGRESS);
	DECLARE_LIBBPF_OPTS(bpf_tc_opts, opts, .handle = 1, .priority = PRIORITY);
	int err;

	if (prog < 0)
		return bpf_tc_detach(&hook, &opts);
	libbpf_set_print(NULL); /* that there is one already is no news */
	err = bpf_tc_hook_create(&hook);
	if (err && err != -EEXIST)
		return err;
	opts.prog_fd = prog;
	return bpf_tc_attach(&hook, &opts);
}

void place_detach(const char *device, bool ingress)
{
	struct impair_state *s = state_open(device, ingress);
	int ifindex = if_nametoindex(device);
	struct pin pin;

	if (!s)
		return;
	if (ifindex)
		filter(ifindex, ingress, -1);
	s->stop = 1;
	for (int ms = 0; s->carrier && !kill(s->carrier, 0) && ms < END_MS; ms++)
		usleep(1000);
	munmap(s, sizeof(*s));
	if (ingress)
		helper_remove(ifindex);
	if (!pin_path(device, ingress, &pin))
		unlink(pin.path);
}

/* What the child keeps open; whoever started us may wait for the end of all else. */
static void keep_only(int a, int b)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	for (int fd = 3; fd < 1024; fd++)
		if (fd != a && fd != b)
			close(fd);
}

static int carrier_start(const struct carry *carry)
{
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid) {
		setsid();
		keep_only(carry->ring, carry->packet);
		_exit(carry_run(carry) ? 1 : 0);
	}
	carry->state->carrier = pid;
	printf("%d\n", pid);
	return 0;
}

static bool needs_carrier(const struct impair_config *c)
{
	return c->reorder || c->corrupt || c->delay_us || c->jitter_us || c->cut_min;
}

static int start(struct impair_bpf *skel, const char *device, int ifindex, bool ingress,
		 const struct impair_config *config)
{
	struct carry carry = {.config = config, .ring = bpf_map__fd(skel->maps.ring)};
	int err;

	carry.state = state_map(bpf_map__fd(skel->maps.state));
	if (!carry.state)
		return say(device, "mapping the counts", -errno);
	if (needs_carrier(config)) {
		int out = ifindex;

		if (ingress) {
			out = helper_add(ifindex, bpf_program__fd(skel->progs.impair_back));
			if (out < 0)
				return say(device, "the carrier's interface", out);
		}
		carry.packet = helper_socket(out);
		if (carry.packet < 0)
			return say(device, "packet socket", carry.packet);
		err = carrier_start(&carry);
		if (err)
			return say(device, "starting the carrier", err);
	}
	err = filter(ifindex, ingress, bpf_program__fd(skel->progs.impair));
	return err ? say(device, "attaching", err) : 0;
}

int place_attach(const char *device, bool ingress, const struct impair_config *config)
{
	int ifindex = if_nametoindex(device), err;
	struct impair_bpf *skel;
	struct pin pin;

	if (!ifindex)
		return say(device, "interface", -errno);
	place_detach(device, ingress);
	if (pin_path(device, ingress, &pin))
		return say(device, "network namespace", -errno);
	mkdir(PINS, 0700);
	skel = impair_bpf__open();
	if (!skel)
		return say(device, "opening the program", -errno);
	memcpy((void *)&skel->rodata->cfg, config, sizeof(*config));
	skel->rodata->ingress = ingress;
	skel->rodata->device = ifindex;
	if (needs_carrier(config))
		bpf_map__set_max_entries(skel->maps.ring, IMPAIR_RING);
	err = impair_bpf__load(skel);
	if (err)
		say(device, "loading the program", err);
	else if ((err = bpf_map__pin(skel->maps.state, pin.path)))
		say(device, "pinning below " PINS " (is a bpf file system mounted?)", err);
	else if ((err = start(skel, device, ifindex, ingress, config)))
		place_detach(device, ingress);
	impair_bpf__destroy(skel);
	return err;
}
