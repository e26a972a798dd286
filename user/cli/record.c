// SPDX-License-Identifier: BSD-2-Clause
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/cleanup.h"

#define LOOK_MS 10
#define SECOND 1000000000ull
#define GONE_NS (10 * SECOND)

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

struct recording {
	struct record_options o;
	struct kv_pins *pins;
	struct record_tap *tap;
	struct record_book book;
	__u64 begun_ns, ended_ns;
	bool gone; /* kvsteerd is */
};

/* ---- the gateway ---------------------------------------------------------------------- */

static bool is_recorded(const struct record_options *o, const struct kv_backend *b)
{
	return b->state != KV_BACKEND_FREE && (o->service == KV_NONE || b->service == o->service);
}

/* The fleet, for the simulator: its backends are all alike. */
static struct trace_head fleet(const struct recording *r)
{
	struct trace_head head = {.block_tokens = r->o.block};
	__u64 cache = 0, rate = 0;

	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *b = kv_pins_backend(r->pins, i);

		if (!b || !is_recorded(&r->o, b))
			continue;
		head.backends++;
		cache += b->capacity;
		rate += b->rate;
	}
	if (head.backends) {
		head.cache_tokens = cache / head.backends;
		head.rate = (double)rate / head.backends;
	}
	return head;
}

static int on_dispatch(const struct kv_dispatch *d, void *context)
{
	struct recording *r = context;

	return record_enter(&r->book, d);
}

/* An agent that takes over has the same maps, and nothing is missed. One that begins with others
 * leaves these behind, as one that ends does. */
static bool is_gone(const struct recording *r, __u64 now)
{
	struct kv_meta meta;

	return kv_pins_meta(r->pins, &meta) || meta.heartbeat_ns + GONE_NS < now;
}

/* ---- the loop ------------------------------------------------------------------------- */

static void progress(const struct recording *r, __u64 now)
{
	fprintf(stderr, "\r\033[K%" PRIu64 " s: %" PRIu64 " requests recorded",
		(uint64_t)((now - r->begun_ns) / SECOND), (uint64_t)r->book.n.written);
	if (tap_lost(r->tap))
		fprintf(stderr, ", %" PRIu64 " lost", (uint64_t)tap_lost(r->tap));
	fflush(stderr);
}

static int listen_on(struct cli *cli, struct recording *r)
{
	bool shown = isatty(STDERR_FILENO) && !cli->json;
	__u64 next = r->begun_ns + SECOND, now;
	int rc = 0;

	while (!stopped && !rc && !r->gone) {
		poll(NULL, 0, LOOK_MS); /* ended early by a signal */
		rc = tap_hear(r->tap);
		now = kv_now_ns();
		if (r->o.duration_ns && now - r->begun_ns >= r->o.duration_ns)
			break;
		if (rc || now < next)
			continue;
		next += SECOND;
		rc = tap_renew(r->tap) ?: trace_flush(r->book.writer);
		r->gone = is_gone(r, now);
		if (shown && !rc)
			progress(r, now);
	}
	if (shown)
		fputs("\r\033[K", stderr);
	if (!rc)
		rc = tap_renew(r->tap);
	tap_shut(r->tap);
	rc = rc ?: tap_hear(r->tap);
	r->ended_ns = kv_now_ns();
	return rc;
}

/* ---- the end -------------------------------------------------------------------------- */

static int summary(struct cli *cli, const struct recording *r)
{
	const struct record_counts *n = &r->book.n;
	double seconds = (r->ended_ns - r->begun_ns) / 1e9;
	__u64 lost = tap_lost(r->tap);

	if (cli->json) {
		_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
		yyjson_mut_val *root = yyjson_mut_obj(doc);

		yyjson_mut_obj_add_str(doc, root, "file", r->o.file);
		yyjson_mut_obj_add_real(doc, root, "seconds", seconds);
		yyjson_mut_obj_add_uint(doc, root, "requests", n->written);
		yyjson_mut_obj_add_uint(doc, root, "lost", lost);
		yyjson_mut_obj_add_real(doc, root, "deaf_s", tap_deaf_ns(r->tap) / 1e9);
		yyjson_mut_obj_add_uint(doc, root, "not_sampled", n->unsampled);
		yyjson_mut_obj_add_uint(doc, root, "without_prompt", n->promptless);
		yyjson_mut_obj_add_uint(doc, root, "too_long", n->overlong);
		yyjson_mut_obj_add_uint(doc, root, "repeated", n->repeated);
		yyjson_mut_obj_add_uint(doc, root, "block_tokens", r->o.block);
		yyjson_mut_obj_add_bool(doc, root, "agent_gone", r->gone);
		return cli_print(cli, doc, root);
	}
	fprintf(stderr, "%" PRIu64 " requests in %.1f s\n", (uint64_t)n->written, seconds);
	if (lost)
		fprintf(stderr,
			"%" PRIu64
			" requests were lost: they were served, and are not in the trace\n",
			(uint64_t)lost);
	if (tap_deaf_ns(r->tap))
		fprintf(stderr,
			"for %.1f s this program was stopped: requests of that time are missing\n",
			tap_deaf_ns(r->tap) / 1e9);
	if (n->unsampled)
		fprintf(stderr, "%" PRIu64 " not of the sample\n", (uint64_t)n->unsampled);
	if (n->promptless)
		fprintf(stderr, "%" PRIu64 " without a prompt, left out\n",
			(uint64_t)n->promptless);
	if (n->overlong)
		fprintf(stderr, "%" PRIu64 " of more than %u blocks, left out\n",
			(uint64_t)n->overlong, TRACE_IDS_MAX);
	if (r->gone)
		fputs("kvsteer: kvsteerd is gone: the recording ends here\n", stderr);
	return CLI_OK;
}

static void close_recording(struct recording *r)
{
	if (r->book.writer)
		trace_finish(r->book.writer);
	tap_close(r->tap);
	trace_ladders_free(r->book.ladders);
	kv_pins_close(r->pins);
}

static const char *why_ended(int rc)
{
	if (rc == -ESTALE)
		return "this program was stopped, and another recording has begun";
	if (rc == -ENOLINK)
		return "kvsteerd has begun anew, with other tables";
	if (rc == -ENOBUFS)
		return "no more prompts can be remembered";
	return strerror(-rc);
}

static int record(struct cli *cli, struct recording *r)
{
	const struct tap_options tap = {cli->pin, r->o.service, r->o.buffer, on_dispatch, r};
	struct trace_head head = fleet(r);
	char err[TAP_ERROR_LEN];
	__u64 seed;
	int rc;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return cli_error(cli, "no random numbers: %s", strerror(errno));
	r->book.ladders = trace_ladders_new(r->o.block, r->o.sample, seed);
	if (!r->book.ladders)
		return cli_error(cli, "out of memory");
	if (tap_open(&tap, r->pins, &r->tap, err))
		return cli_error(cli, "%s", err);
	r->begun_ns = r->book.start_ns = kv_now_ns();
	if (trace_create(r->o.file, r->o.force, &head, r->o.service_name, &r->book.writer, err))
		return cli_error(cli, "%s", err);
	rc = listen_on(cli, r);
	rc = trace_finish(kv_take(r->book.writer)) ?: rc;
	if (rc)
		return cli_error(cli, "%s ends after %llu requests: %s", r->o.file,
				 (unsigned long long)r->book.n.written, why_ended(rc));
	return summary(cli, r) ?: r->gone ? CLI_FAILED : CLI_OK;
}

static void handle_signals(void)
{
	struct sigaction action = {.sa_handler = stop};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int do_record(struct cli *cli, int argc, char **argv)
{
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	_cleanup_(close_recording) struct recording r = {.o.service = KV_NONE};
	int rc = view ? record_options(cli, argc, argv, &r.o) : cli_error(cli, "out of memory");

	if (!rc && cli->json && !strcmp(r.o.file, "-"))
		rc = cli_usage(cli,
			       "-j: the summary has no place beside the trace: expected -o FILE");
	if (!rc)
		rc = cli_pins(cli, &r.pins) ?: view_take(cli, r.pins, false, view);
	if (!rc && r.o.service_name)
		rc = view_pick_service(cli, view, r.o.service_name, &r.o.service);
	if (rc)
		return rc;
	if (!view->alive)
		return cli_error(cli, "kvsteerd is down: there is nothing to record");
	handle_signals();
	return record(cli, &r);
}
