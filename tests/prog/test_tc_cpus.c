// SPDX-License-Identifier: BSD-2-Clause
/*
 * One pair on two CPUs at once, as on a gateway with more than one receive queue. The backend sends
 * a response segment by segment, and each of them again on another CPU; the client acknowledges
 * what it has got. A segment that finds the pair moved is dropped and sent again, as TCP would.
 */
#include <pthread.h>

#include "talk.h"

#define ROUNDS 40
#define TRIES 1000000
#define SEGMENTS 200
#define SIZE 700
#define HEAD "HTTP/1.1 200 OK\r\nContent-Length: 140000\r\n\r\n"

static struct {
	struct packet first; /* of each side, as it would send it now */
	struct packet ack;
	__u32 sent; /* response bytes that have passed */
	__u32 dropped;
	__u32 ready;
	__u32 round;
} both;

static int run_once(const struct packet *p)
{
	__u8 frame[PACKET_MAX], out[PACKET_MAX];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame,
		    .data_size_in = packet_write(p, frame), .data_out = out,
		    .data_size_out = sizeof(out));

	NEED(!bpf_prog_test_run_opts(bpf_program__fd(gw.skel->progs.kv_ingress), &opts));
	return opts.retval;
}

static void on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	NEED(!sched_setaffinity(0, sizeof(set), &set));
}

/* As TCP would: again and again, until it is let through. */
static void send_until_passed(const struct packet *p)
{
	for (int tries = 0; run_once(p) == VERDICT_DROP; tries++) {
		NEED(tries < TRIES); /* or it is dropped for good */
		__atomic_add_fetch(&both.dropped, 1, __ATOMIC_RELAXED);
	}
}

static void passed(__u32 bytes)
{
	__u32 sent = __atomic_load_n(&both.sent, __ATOMIC_RELAXED);

	while (sent < bytes && !__atomic_compare_exchange_n(&both.sent, &sent, bytes, false,
							    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* The response's rest. */
static void *backend_sends(void *cpu)
{
	static const __u8 body[SIZE];
	struct packet p = both.first;

	on_cpu(*(int *)cpu);
	p.data = body;
	p.len = SIZE;
	for (__u32 end = SIZE; end <= SEGMENTS * SIZE; end += SIZE) {
		send_until_passed(&p);
		p.seq += SIZE;
		p.tsval++;
		passed(end);
	}
	return NULL;
}

static void client_acks_all(void)
{
	struct packet p = both.ack;
	__u32 acked = 0, sent;

	on_cpu(0);
	while (acked < SEGMENTS * SIZE) {
		sent = __atomic_load_n(&both.sent, __ATOMIC_ACQUIRE);
		p.ack += sent - acked;
		p.tsval++;
		if (sent != acked)
			CHECK_EQ(run_once(&p), flow.local ? VERDICT_OK : VERDICT_SENT);
		acked = sent;
	}
}

/* False: there is only one. */
static bool both_begin(cpu_set_t *ret_before)
{
	NEED(!sched_getaffinity(0, sizeof(*ret_before), ret_before));
	if (CPU_COUNT(ret_before) < 2) {
		printf("# one CPU only: nothing runs at once\n");
		return false;
	}
	flow_begin();
	return true;
}

/* send on each CPU, and meanwhile, where given, the client; returns when all have ended. */
static void both_run(void *(*send)(void *cpu), void (*client)(void))
{
	int cpus[] = {0, 1};
	pthread_t threads[2];

	for (int k = 0; k < 2; k++)
		NEED(!pthread_create(&threads[k], NULL, send, &cpus[k]));
	if (client)
		client();
	for (int k = 0; k < 2; k++)
		pthread_join(threads[k], NULL);
}

static void test_two_cpus(void)
{
	cpu_set_t before;

	if (!both_begin(&before))
		return;
	for (int i = 0; i < ROUNDS; i++) {
		ASK(0, GET, LEN(GET));
		BACKEND_SAYS(0, HEAD, LEN(HEAD));
		both.first = segment(&flow.u[0], PSH, NULL, 0);
		both.ack = segment(&flow.c, 0, NULL, 0);
		both.sent = 0;
		both_run(backend_sends, client_acks_all);
		flow.u[0].seq += SEGMENTS * SIZE;
		flow.c.ack += SEGMENTS * SIZE;
		flow.u[0].tsval += SEGMENTS + 1;
		flow.c.tsval += SEGMENTS + 1;
		POOLED(0);
	}
	NEED(!sched_setaffinity(0, sizeof(before), &before));
	printf("# %u segments met the pair while it moved\n", both.dropped);
}

/* ---- holes --------------------------------------------------------------------------- */

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHUNK "1\r\nx\r\n"
#define CHUNKS 500 /* so many that framing them takes longer than the other CPU's whole way */

/* Both begin at once, the second one a little later in each round than in the one before. */
static void both_wait(__u32 turns)
{
	__atomic_add_fetch(&both.ready, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&both.ready, __ATOMIC_ACQUIRE) < 2)
		;
	for (__u32 i = 0; i < turns; i++)
		__asm__ volatile("" ::: "memory");
}

/* CPU 0 fills the hole, CPU 1 sends what is ahead of it. */
static void *backend_sends_part(void *cpu)
{
	bool ahead = *(int *)cpu;
	char text[CHUNKS * LEN(CHUNK)];
	struct packet p = both.first;

	on_cpu(ahead);
	for (int i = 0; i < CHUNKS; i++)
		memcpy(text + i * LEN(CHUNK), CHUNK, LEN(CHUNK));
	p.data = text;
	p.len = ahead ? LEN(CHUNK) : sizeof(text);
	p.seq += ahead ? sizeof(text) : 0;
	both_wait(ahead ? both.round * 300 : 0);
	send_until_passed(&p);
	return NULL;
}

static void test_holes(void)
{
	cpu_set_t before;

	if (!both_begin(&before))
		return;
	for (both.round = 0; both.round < 4 * ROUNDS; both.round++) {
		ASK(0, GET, LEN(GET));
		BACKEND_SAYS(0, CHUNKED, LEN(CHUNKED));
		both.first = segment(&flow.u[0], PSH, NULL, 0);
		both.ready = 0;
		both_run(backend_sends_part, NULL);
		flow.u[0].seq += (CHUNKS + 1) * LEN(CHUNK);
		flow.c.ack += (CHUNKS + 1) * LEN(CHUNK);
		flow.u[0].tsval++;
		/* all has been framed, or the end would not be known as one */
		BACKEND_SAYS(0, "0\r\n\r\n", 5);
		CLIENT_ACKS(0);
		POOLED(0);
	}
	NEED(!sched_setaffinity(0, sizeof(before), &before));
}

/* ---- one request twice --------------------------------------------------------------- */

static void *client_sends(void *cpu)
{
	on_cpu(*(int *)cpu);
	both_wait(*(int *)cpu ? both.round * 30 : 0);
	run_once(&both.first);
	return NULL;
}

/* A request and its duplicate: one is lent, and then the other is not the home socket's. */
static void test_same_request(void)
{
	cpu_set_t before;
	int lent;

	if (!both_begin(&before))
		return;
	for (both.round = 0; both.round < 10 * ROUNDS; both.round++) {
		both.first = segment(&flow.c, PSH, GET, LEN(GET));
		both.ready = 0;
		both_run(client_sends, NULL);
		CHECK_EQ(client_entry().state, KV_CLIENT_LENT);
		CHECK_EQ(client_entry().handed, 0);
		lent = client_entry().pair.slot == (__u32)SLOT(1);
		CHECK_EQ(slot(!lent)->state, KV_UP_IDLE);
		flow_pair(lent);
		flow.c.tsval_sent = both.first.tsval;
		flow.c.tsval = both.first.tsval + 3;
		flow.c.seq += LEN(GET);
		flow.u[lent].ack += LEN(GET);
		BACKEND_SAYS(lent, ANSWER, LEN(ANSWER));
		CLIENT_ACKS(lent);
		POOLED(lent);
	}
	NEED(!sched_setaffinity(0, sizeof(before), &before));
}

int main(void)
{
	static const struct prog_test tests[] = {
		{"both sides of a pair on two CPUs", test_two_cpus},
		{"a hole and what is ahead of it, on two CPUs", test_holes},
		{"a request and its duplicate, on two CPUs", test_same_request},
	};

	return TALK_MAIN(tests);
}
