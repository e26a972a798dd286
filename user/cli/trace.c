// SPDX-License-Identifier: BSD-2-Clause
#include "trace.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/config_values.h"

#define LAST_DEFAULT 20
#define LOOK_MS 200
#define SECOND 1000000000ull
#define GONE_NS (10 * SECOND)
#define HEAD_EVERY 40 /* lines, on a terminal */

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

struct trace_options {
	const char *service, *backend, *slow, *last;
	bool follow, why;
	__u64 n_last;
};

struct trace_show {
	struct cli *cli;
	struct view *view;
	struct trace_ring ring;
	struct trace_filter filter;
	bool why;
	unsigned int lines;
	__u64 missed; /* that has been told */
};

static int options(struct cli *cli, int argc, char **argv, struct trace_options *o)
{
	const struct cli_option list[] = {{"--service", &o->service, NULL},
					  {"--backend", &o->backend, NULL},
					  {"--slow", &o->slow, NULL},
					  {"--last", &o->last, NULL},
					  {"--follow", NULL, &o->follow},
					  {"--why", NULL, &o->why},
					  {0}};
	int rc = cli_arguments(cli, &argc, argv, list, 0, 0);

	if (rc)
		return rc;
	o->n_last = o->follow ? 0 : LAST_DEFAULT;
	if (o->last && kv_parse_count(o->last, &o->n_last))
		return cli_usage(cli, "--last \"%s\": expected a number of requests", o->last);
	return 0;
}

static int filter(struct trace_show *show, const struct trace_options *o)
{
	struct cli *cli = show->cli;
	__u64 slow_ms = 0;
	int rc = 0;

	show->filter = (struct trace_filter){.service = KV_NONE, .backend = KV_NONE};
	if (o->slow && kv_parse_count(o->slow, &slow_ms))
		return cli_usage(cli, "--slow \"%s\": expected milliseconds, a whole number",
				 o->slow);
	show->filter.slow_ns = slow_ms * 1000000;
	if (o->service)
		rc = view_pick_service(cli, show->view, o->service, &show->filter.service);
	for (__u32 i = 0; !rc && o->backend && i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *b = view_backend(show->view, i);

		if (b && !strncmp(b->name, o->backend, KV_NAME_LEN))
			show->filter.backend = i;
	}
	if (!rc && o->backend && show->filter.backend == KV_NONE)
		return cli_error(cli, "backend \"%s\": there is none", o->backend);
	return rc;
}

static int print(struct trace_show *show, const struct trace_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		if (show->cli->json) {
			if (trace_json(show->view, &list->records[i]))
				return -EIO;
			continue;
		}
		if (!show->lines || (isatty(STDOUT_FILENO) && !(show->lines % HEAD_EVERY)))
			trace_heading(stdout);
		show->lines++;
		trace_line(stdout, show->view, &list->records[i], show->why);
	}
	return fflush(stdout) ? -EIO : 0;
}

static int print_last(struct trace_show *show, __u64 last)
{
	struct trace_list list = {0};
	int err = ring_last(&show->ring, &show->filter, last, &list);

	if (!err)
		err = print(show, &list);
	free(list.records);
	return err;
}

static void tell_missed(struct trace_show *show)
{
	__u64 n = show->ring.missed - show->missed;

	if (!n)
		return;
	fflush(stdout);
	fprintf(stderr, "kvsteer: %llu requests ended unseen: later ones took their places\n",
		(unsigned long long)n);
	show->missed = show->ring.missed;
}

static int print_news(struct trace_show *show)
{
	struct trace_list list = {0};
	int err = ring_news(&show->ring, &show->filter, &list);

	if (!err)
		err = print(show, &list);
	free(list.records);
	tell_missed(show);
	return err;
}

/* Another agent may have begun with other maps, or with another ring. */
static bool is_pinned(const struct cli *cli, const struct kv_pins *pins)
{
	struct bpf_map_info ours = {}, theirs = {};
	__u32 len = sizeof(ours);
	_cleanup_close_ int fd = -1;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", cli->pin, kv_pin_name(KV_PIN_kv_traces));
	fd = bpf_obj_get(path);
	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &theirs, &len) &&
	       !bpf_obj_get_info_by_fd(pins->map[KV_PIN_kv_traces].fd, &ours, &len) &&
	       ours.id == theirs.id;
}

static bool is_gone(const struct trace_show *show)
{
	struct kv_meta meta;

	return kv_pins_meta(show->ring.pins, &meta) || meta.heartbeat_ns + GONE_NS < kv_now_ns() ||
	       !is_pinned(show->cli, show->ring.pins);
}

static int follow(struct trace_show *show)
{
	int err = 0;

	for (unsigned int look = 0; !stopped && !err; look++) {
		err = print_news(show);
		if (!err && look % (1000 / LOOK_MS) == 1 && is_gone(show))
			return cli_error(show->cli, "kvsteerd is gone, or has begun anew with "
						    "another ring");
		poll(NULL, 0, LOOK_MS); /* ended early by a signal */
	}
	if (!err)
		err = print_news(show);
	return err ? cli_error(show->cli, "cannot show requests: %s", strerror(-err)) : CLI_OK;
}

static int show_traces(struct trace_show *show, const struct trace_options *o)
{
	struct sigaction action = {.sa_handler = stop};
	int err = 0;

	if (o->follow) {
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGTERM, &action, NULL);
		ring_first(&show->ring);
	}
	if (!err && o->n_last)
		err = print_last(show, o->n_last);
	if (err)
		return cli_error(show->cli, "cannot show requests: %s", strerror(-err));
	return o->follow ? follow(show) : CLI_OK;
}

int do_trace(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	struct trace_options o = {0};
	struct trace_show show = {.cli = cli, .view = view};
	int rc = view ? options(cli, argc, argv, &o) : cli_error(cli, "out of memory");

	if (!rc)
		rc = cli_pins(cli, &pins) ?: view_take(cli, pins, false, view)
			?: filter(&show, &o) ?: ring_open(cli, pins, &show.ring);
	if (rc)
		return rc;
	show.why = o.why;
	cli_say_if_down(cli, pins);
	rc = show_traces(&show, &o);
	ring_close(&show.ring);
	return rc;
}
