// SPDX-License-Identifier: BSD-2-Clause
/* What a recorder hears of requests, and that nobody who does not record is charged for it. */
#include "common/clock.h"
#include "talk.h"

#define POST "POST /v1/completions HTTP/1.1\r\nHost: a\r\n" HINT "Content-Length: 4\r\n\r\nbody"
#define HEARD_MAX 128
#define SECOND 1000000000ull

static struct {
	struct kv_recording *lease;
	struct ring_buffer *ring;
	int fd;
	__u32 n;
	struct kv_dispatch heard[HEARD_MAX];
} rec;

static int on_dispatch(void *ctx, void *data, size_t len)
{
	(void)ctx;
	NEED(len <= sizeof(rec.heard[0]) && rec.n < HEARD_MAX);
	memset(&rec.heard[rec.n], 0xee, sizeof(rec.heard[0]));
	memcpy(&rec.heard[rec.n], data, len);
	CHECK_EQ(len, offsetof(struct kv_dispatch, query.rungs) +
			      rec.heard[rec.n].query.n_rungs * sizeof(struct kv_rung));
	rec.n++;
	return 0;
}

static void record_begin(__u32 service)
{
	__u32 zero = 0;

	flow_begin();
	rec.lease = prog_memory(gw.skel->maps.kv_recording);
	rec.fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, 8192, NULL);
	NEED(rec.fd >= 0);
	rec.ring = ring_buffer__new(rec.fd, on_dispatch, NULL, NULL);
	NEED(rec.ring);
	NEED(!bpf_map_update_elem(bpf_map__fd(gw.skel->maps.kv_recorders), &zero, &rec.fd,
				  BPF_ANY));
	*rec.lease =
		(struct kv_recording){.until_ns = kv_now_ns() + 60 * SECOND, .service = service};
}

static void record_end(void)
{
	__u32 zero = 0;

	memset(rec.lease, 0, sizeof(*rec.lease));
	NEED(!bpf_map_delete_elem(bpf_map__fd(gw.skel->maps.kv_recorders), &zero));
	ring_buffer__free(rec.ring);
	close(rec.fd);
	munmap(rec.lease, sysconf(_SC_PAGESIZE));
}

static __u32 heard(void)
{
	rec.n = 0;
	NEED(ring_buffer__consume(rec.ring) >= 0);
	return rec.n;
}

static void check_prompt(const struct kv_dispatch *d, bool charged)
{
	CHECK_EQ(d->charged_request, charged);
	CHECK_EQ(d->query.service, SERVICE);
	CHECK_EQ(d->query.total, 300);
	CHECK_EQ(d->query.n_rungs, 2);
	CHECK_EQ(d->query.rungs[0].hash, 0xabc);
	CHECK_EQ(d->query.rungs[1].depth, 200);
	CHECK(d->at_ns <= kv_now_ns() && d->at_ns + 60 * SECOND > kv_now_ns());
}

static void decide(void)
{
	agent_prompt();
	agent_call(KV_CALL_DECIDE);
}

static void test_express(void)
{
	struct packet p;

	record_begin(KV_NONE);
	ASK(0, POST, LEN(POST));
	CHECK_EQ(heard(), 1);
	check_prompt(&rec.heard[0], true);
	/* the upstream fails before the request has reached anybody: it will be steered again */
	p = segment(&flow.u[0], RST, NULL, 0);
	p.ack -= LEN(POST);
	send_from(&flow.u[0], &p);
	CHECK_EQ(client_entry().state, KV_CLIENT_HOME);
	CHECK_EQ(heard(), 1);
	check_prompt(&rec.heard[0], false);
	CHECK_EQ(rec.lease->lost, 0);
	record_end();
}

static void test_agent(void)
{
	record_begin(SERVICE);
	decide();
	CHECK_EQ(gw.call->choice.backend, BACKEND);
	agent_call(KV_CALL_UNDO);
	decide();
	gw.dispatches[SLOT(0)] = gw.call->dispatch;
	agent_call(KV_CALL_SETTLE_ANSWERED);
	agent_call(KV_CALL_SETTLE_FINISHED);
	decide();
	gw.dispatches[SLOT(0)] = gw.call->dispatch;
	agent_call(KV_CALL_SETTLE_FAILED);
	CHECK_EQ(heard(), 5);
	for (int i = 0; i < 5; i++)
		check_prompt(&rec.heard[i], i != 1 && i != 4);
	/* nobody takes it: no dispatch */
	gw.backends[BACKEND].state = KV_BACKEND_DOWN;
	decide();
	CHECK_EQ(heard(), 0);
	record_end();
}

static void test_silence(void)
{
	record_begin(SERVICE + 1);
	decide();
	CHECK_EQ(heard(), 0);
	rec.lease->service = SERVICE;
	rec.lease->until_ns = kv_now_ns() - 1;
	decide();
	rec.lease->until_ns = 0;
	decide();
	CHECK_EQ(heard(), 0);
	rec.lease->until_ns = kv_now_ns() + SECOND;
	decide();
	CHECK_EQ(heard(), 1);
	record_end();
	/* a lease and no ring: its recorder is just going */
	flow_begin();
	rec.lease = prog_memory(gw.skel->maps.kv_recording);
	rec.lease->until_ns = kv_now_ns() + SECOND;
	decide();
	CHECK_EQ(rec.lease->lost, 0);
	rec.lease->until_ns = 0;
}

static void test_full(void)
{
	record_begin(KV_NONE);
	for (int i = 0; i < HEARD_MAX; i++)
		decide();
	CHECK(rec.lease->lost > 0 && rec.lease->lost < HEARD_MAX);
	CHECK_EQ(heard() + rec.lease->lost, HEARD_MAX);
	decide();
	CHECK_EQ(heard(), 1);
	record_end();
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"express lane: dispatched, and forgotten", test_express},
		{"agent: dispatched, undone, answered, failed", test_agent},
		{"silent but for its service and time", test_silence},
		{"what finds no room is counted", test_full},
	};

	return TALK_MAIN(tests);
}
