// SPDX-License-Identifier: BSD-2-Clause
/* Publishers on real sockets: replays, gaps, restarts, engines that connect, and bad ones. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "events/follow.h"
#include "events_publisher.h"

#define BACKENDS 32

static struct {
	uint32_t told[BACKENDS], gone[BACKENDS], cleared[BACKENDS], unsure[BACKENDS];
	bool complete[BACKENDS];
	uint32_t problems[KV_PROBLEMS];
} seen;

static volatile unsigned int slow_ms; /* so long takes a block that is told */
static bool in_sink;

static void told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	(void)ctx;
	(void)key;
	(void)depth;
	(void)weight;
	__atomic_fetch_add(&seen.told[backend], 1, __ATOMIC_RELAXED);
	__atomic_store_n(&in_sink, slow_ms != 0, __ATOMIC_RELAXED);
	usleep(1000 * slow_ms);
}

static void gone(void *ctx, uint64_t key, uint32_t backend)
{
	(void)ctx;
	(void)key;
	__atomic_fetch_add(&seen.gone[backend], 1, __ATOMIC_RELAXED);
}

#define COUNTED(what)                                                                              \
	static void what(void *ctx, uint32_t backend, uint32_t rank, bool wholesale)               \
	{                                                                                          \
		(void)ctx;                                                                         \
		(void)rank;                                                                        \
		(void)wholesale;                                                                   \
		__atomic_fetch_add(&seen.what[backend], 1, __ATOMIC_RELAXED);                      \
	}
COUNTED(cleared)
COUNTED(unsure)

static void complete(void *ctx, uint32_t backend, uint32_t rank, bool is)
{
	(void)ctx;
	(void)rank;
	__atomic_store_n(&seen.complete[backend], is, __ATOMIC_RELAXED);
}

static void problem(void *ctx, const char *source, enum kv_problem what, const char *text)
{
	(void)ctx;
	(void)source;
	(void)text;
	__atomic_fetch_add(&seen.problems[what], 1, __ATOMIC_RELAXED);
}

static const struct kv_index_sink sink = {told, gone, cleared, unsure, complete};

#define NOW(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

/* Until it is so, or five seconds. */
#define WAIT(p, cond)                                                                              \
	do {                                                                                       \
		uint64_t wait_end = now_ms() + 5000;                                               \
		while (!(cond) && now_ms() < wait_end)                                             \
			publisher_pump(p, 2);                                                      \
		CHECK(cond);                                                                       \
	} while (0)

static struct kv_follow *open_follow(void)
{
	struct kv_follow_limits limits = KV_FOLLOW_LIMITS;

	memset(&seen, 0, sizeof(seen));
	limits.index.max_bytes = 16 << 20;
	limits.message_bytes = 65536;
	limits.sequence.idle_ns = 300000000;
	limits.problem_ns = 0;
	limits.reconnect_ns = 200000000;
	return kv_follow_new(&limits, &sink, problem, NULL);
}

/* What became of an add. */
static int added(struct kv_follow *f, const char *name)
{
	uint64_t end = now_ms() + 5000;
	struct kv_follow_stats stats;
	int err;

	while ((err = kv_follow_stats(f, name, &stats)) == -EINPROGRESS && now_ms() < end)
		usleep(1000);
	return err;
}

static int add(struct kv_follow *f, const char *name, const char *endpoint, const char *replay,
	       uint32_t backend)
{
	struct kv_follow_source s = {
		.name = name,
		.endpoint = endpoint,
		.replay = replay,
		.engine = {.backend = backend, .model = "m"},
	};

	return kv_follow_add(f, &s) ?: added(f, name);
}

static void one_engine(void *zmq)
{
	struct kv_follow_stats stats;
	struct publisher p;
	struct kv_follow *f = open_follow();

	publisher_open(&p, zmq, NULL);
	TEST("what was published before is replayed, then live; both layouts of replays")
	{
		publisher_keep(&p, 0, 4);
		publisher_keep(&p, 4, 4);
		CHECK_EQ(add(f, "a", p.endpoint, p.replay, 1), 0);
		CHECK_EQ(kv_follow_add(f, &(struct kv_follow_source){.name = "a"}), 0);
		WAIT(&p, NOW(seen.told[1]) == 8 && NOW(seen.complete[1]));
		publisher_stored(&p, 8, 2, false);
		WAIT(&p, NOW(seen.told[1]) == 10);
	}

	TEST("lost messages are asked for")
	{
		p.with_topic = true;
		publisher_stored(&p, 10, 2, true);
		publisher_stored(&p, 12, 2, true);
		publisher_stored(&p, 14, 2, false);
		WAIT(&p, NOW(seen.told[1]) == 16);
		CHECK_EQ(p.asked, 2);
		CHECK_EQ(NOW(seen.unsure[1]), 0);
	}

	TEST("a gap that the publisher does not have any more: unsure, and on")
	{
		publisher_stored(&p, 20, 1, true);
		publisher_stored(&p, 21, 1, true);
		p.kept_from = p.seq - 1;
		publisher_stored(&p, 0, 3, false);
		WAIT(&p, NOW(seen.unsure[1]) == 1 && NOW(seen.told[1]) == 19);
		CHECK(!NOW(seen.complete[1]));
		WAIT(&p, NOW(seen.problems[KV_PROBLEM_GAP]) == 1);
	}

	TEST("the number goes back: cleared, and all anew")
	{
		publisher_restart(&p);
		publisher_stored(&p, 0, 5, true);
		publisher_stored(&p, 5, 1, false);
		WAIT(&p,
		     NOW(seen.cleared[1]) == 1 && NOW(seen.told[1]) == 25 && NOW(seen.complete[1]));
	}

	TEST("any bytes: counted, reported, and on")
	{
		static char big[100000];

		zmq_send(p.pub, "only one frame", 14, 0);
		publisher_send(&p, 1 << 20, "", 0);
		publisher_send(&p, p.seq++, "\x93garbage", 8);
		WAIT(&p, NOW(seen.problems[KV_PROBLEM_FRAMES]) == 2 &&
				 NOW(seen.problems[KV_PROBLEM_PAYLOAD]) == 1);
		publisher_send(&p, p.seq, big, sizeof(big)); /* ends the connection */
		WAIT(&p, NOW(seen.problems[KV_PROBLEM_PEER]) >= 1);
		p.seq--;
		publisher_stored(&p, 6, 1, true); /* what the replay says instead of the garbage */
		WAIT(&p,
		     !kv_follow_stats(f, "a", &stats) && stats.connects >= 2 && stats.block == 16);
	}

	TEST("stats; an engine can leave")
	{
		CHECK_EQ(kv_follow_stats(f, "b", &stats), -ENOENT);
		CHECK_EQ(kv_follow_stats(f, "a", &stats), 0);
		CHECK_EQ(stats.bad_frames, 2);
		CHECK_EQ(stats.bad_payloads, 1);
		CHECK_EQ(stats.block, 16);
		CHECK_EQ(kv_follow_remove(f, "a"), 0);
		CHECK_EQ(kv_follow_remove(f, "a"), 0);
		CHECK_EQ(add(f, "a", "tcp://", NULL, 1), -EINVAL);
		CHECK_EQ(kv_follow_remove(f, "a"), 0);
		CHECK_EQ(add(f, "a", p.endpoint, "nonsense", 1), -EINVAL);
		CHECK_EQ(kv_follow_remove(f, "a"), 0);
		CHECK_EQ(add(f, "a", p.endpoint, NULL, 1), 0);
	}

	TEST("nobody waits for the thread, however long it is busy")
	{
		uint64_t began;
		char name[16];

		WAIT(&p, !kv_follow_stats(f, "a", &stats) && stats.connected);
		slow_ms = 500;
		publisher_stored(&p, 0, 1, false);
		WAIT(&p, NOW(in_sink));
		began = now_ms();
		for (int i = 0; i < 100; i++) {
			snprintf(name, sizeof(name), "many-%d", i);
			CHECK_EQ(
				kv_follow_add(f, &(struct kv_follow_source){.name = name,
									    .endpoint = p.endpoint,
									    .engine = {.backend = 3,
										       .rank = i}}),
				0);
			if (i % 2)
				CHECK_EQ(kv_follow_remove(f, name), 0);
		}
		CHECK(now_ms() - began < 250);
		CHECK_EQ(kv_follow_stats(f, "many-0", &stats), -EINPROGRESS);
		slow_ms = 0;
		CHECK_EQ(added(f, "many-98"), 0);
		CHECK_EQ(added(f, "many-99"), -ENOENT);
	}
	kv_follow_free(f);
	publisher_close(&p);
}

/* Of a thread, 0: nothing is known of it (before Linux 6.12). */
static uint64_t slice_of(pid_t tid)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {};

	return syscall(SYS_sched_getattr, tid, &attr, sizeof(attr), 0) ? 0 : attr.runtime;
}

static void hurried(void)
{
	uint64_t usual = slice_of(0), end = now_ms() + 5000;
	struct kv_follow *f = open_follow();
	unsigned int shorter = 0;

	TEST("its threads do not wait long for a CPU")
	{
		CHECK_EQ(add(f, "a", "tcp://127.0.0.1:9", NULL, 1), 0);
		while (usual && shorter < 2 && now_ms() < end) {
			DIR *dir = opendir("/proc/self/task");
			struct dirent *entry;

			shorter = 0;
			while ((entry = readdir(dir)))
				if (atoi(entry->d_name) && slice_of(atoi(entry->d_name)) < usual)
					shorter++;
			closedir(dir);
		}
		CHECK(!usual || shorter >= 2); /* its own, and libzmq's */
	}
	kv_follow_free(f);
}

static void binding(void *zmq)
{
	struct kv_follow *f = open_follow();
	struct kv_follow_source s = {.name = "x", .bind = true, .engine = {.model = "m"}};
	struct publisher a, b, c;
	char endpoint[64];
	int err;

	TEST("engines that connect: told apart by their topic, strangers counted")
	{
		uint64_t bytes, strangers = 0;
		uint32_t entries;

		/* a port that is free: that of a publisher just closed */
		publisher_open(&a, zmq, NULL);
		snprintf(endpoint, sizeof(endpoint), "%s", a.replay);
		publisher_close(&a);
		s.endpoint = endpoint;
		s.pod = "10.0.0.1:8000";
		s.engine.backend = 1;
		do /* libzmq closes in the background */
			err = kv_follow_remove(f, "x") ?: kv_follow_add(f, &s) ?: added(f, "x");
		while (err == -EADDRINUSE && !usleep(1000));
		CHECK_EQ(err, 0);
		s.name = "y";
		s.pod = "plain";
		s.engine.backend = 2;
		CHECK_EQ(kv_follow_add(f, &s), 0);
		publisher_open(&a, zmq, endpoint);
		publisher_open(&b, zmq, endpoint);
		publisher_open(&c, zmq, endpoint);
		a.topic = "kv@10.0.0.1:8000@org/model@1";
		b.topic = "plain";
		c.topic = "kv@10.0.0.1@model";
		WAIT(&a, (publisher_stored(&a, 0, 1, false), publisher_stored(&b, 0, 1, false),
			  publisher_stored(&c, 0, 1, false),
			  kv_follow_totals(f, &bytes, &entries, &strangers), NOW(seen.told[1])) &&
				 NOW(seen.told[2]) && strangers);
		CHECK(NOW(seen.problems[KV_PROBLEM_STRANGER]) > 0);
		publisher_close(&a);
		publisher_close(&b);
		publisher_close(&c);
	}
	kv_follow_free(f);
}

/* A server that talks something else. */
static int talker(char *endpoint, size_t size)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&a, n) || listen(fd, 8) ||
	    getsockname(fd, (struct sockaddr *)&a, &n))
		abort();
	snprintf(endpoint, size, "tcp://127.0.0.1:%u", ntohs(a.sin_port));
	return fd;
}

static void neighbours(void *zmq)
{
	enum { N = 8 };
	struct kv_follow *f = open_follow();
	struct publisher p[N], mad;
	char endpoint[64], name[16];
	static char garbage[60000];
	int fd, peer;

	TEST("a mad publisher and a peer that is none: the others are followed as before")
	{
		publisher_open(&mad, zmq, NULL);
		fd = talker(endpoint, sizeof(endpoint));
		CHECK_EQ(add(f, "mad", mad.endpoint, mad.replay, 30), 0);
		CHECK_EQ(add(f, "talker", endpoint, endpoint, 31), 0);
		peer = accept(fd, NULL, NULL);
		CHECK(write(peer, "HTTP/1.1 400 Bad Request\r\n\r\n", 28) == 28);
		for (int i = 0; i < N; i++) {
			publisher_open(&p[i], zmq, NULL);
			snprintf(name, sizeof(name), "e%d", i);
			CHECK_EQ(add(f, name, p[i].endpoint, p[i].replay, i), 0);
			WAIT(&p[i], NOW(seen.complete[i]));
		}
		for (size_t i = 0; i < sizeof(garbage); i++)
			garbage[i] = i % 3 ? 0x91 : 0x01; /* arrays in arrays */
		memcpy(garbage, "\x92\x00\xdd\x00\x00\xff\xff", 7);
		for (int turn = 0; turn < 20; turn++) {
			if (turn == 10)
				close(peer);
			for (int k = 0; k < 50; k++)
				publisher_send(&mad, turn * 50 + k, garbage, sizeof(garbage));
			for (int i = 0; i < N; i++)
				publisher_stored(&p[i], turn, 1, false);
			publisher_pump(&mad, 0);
			for (int i = 0; i < N; i++)
				WAIT(&p[i], NOW(seen.told[i]) == (uint32_t)turn + 1);
		}
		CHECK(NOW(seen.problems[KV_PROBLEM_PAYLOAD]) > 0);
		WAIT(&mad, NOW(seen.problems[KV_PROBLEM_PEER]) > 0);
		CHECK_EQ(NOW(seen.told[30]), 0);
		close(fd);
	}
	kv_follow_free(f);
	for (int i = 0; i < N; i++)
		publisher_close(&p[i]);
	publisher_close(&mad);
}

int main(void)
{
	void *zmq = zmq_ctx_new();

	one_engine(zmq);
	hurried();
	binding(zmq);
	neighbours(zmq);
	zmq_ctx_term(zmq);
	return check_done();
}
