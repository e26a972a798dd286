// SPDX-License-Identifier: BSD-2-Clause
/* ZeroMQ frames as engines send them, live and replayed. Run in the source tree's root. */
#include <unistd.h>
#include <zmq.h>

#include "check.h"
#include "events/follow.h"
#include "events_vectors.h"

/* The file's vectors have these faults and signs of the end together; here each is alone. */
static const char more[] =
	"{\"live\":["
	"{\"frames\":[\"6e756d6265722e2e\",\"9000\"],\"expect\":{\"error\":true}},"
	"{\"frames\":[\"\",\"0000000000000000\",\"0000000000000000\",\"00\"],\"expect\":{\"error\":"
	"true}}],"
	"\"end\":["
	"{\"frames\":[\"\",\"ffffffffffffffff\",\"00\"]},"
	"{\"frames\":[\"\",\"0000000000000027\",\"\"]}]}";

#define VECTORS "tests/vectors/events/zmq-frames.json"

static uint32_t n_told, n_complete, problems[KV_PROBLEMS];

static void told(void *ctx, uint64_t key, uint32_t depth, uint32_t backend, uint32_t weight)
{
	(void)ctx;
	(void)key;
	(void)depth;
	(void)backend;
	(void)weight;
	__atomic_fetch_add(&n_told, 1, __ATOMIC_RELAXED);
}

static void gone(void *ctx, uint64_t key, uint32_t backend)
{
	(void)ctx;
	(void)key;
	(void)backend;
}

static void whole(void *ctx, uint32_t backend, uint32_t rank, bool flag)
{
	(void)ctx;
	(void)backend;
	(void)rank;
	(void)flag;
}

static void complete(void *ctx, uint32_t backend, uint32_t rank, bool is)
{
	(void)ctx;
	(void)backend;
	(void)rank;
	__atomic_fetch_add(&n_complete, is, __ATOMIC_RELAXED);
}

static void problem(void *ctx, const char *source, enum kv_problem what, const char *text)
{
	(void)ctx;
	(void)source;
	(void)text;
	__atomic_fetch_add(&problems[what], 1, __ATOMIC_RELAXED);
}

static const struct kv_index_sink sink = {told, gone, whole, whole, complete};

/* That many of it, within five seconds. */
static bool reaches(const uint32_t *count, uint32_t n)
{
	for (int i = 0; i < 5000 && __atomic_load_n(count, __ATOMIC_RELAXED) < n; i++)
		usleep(1000);
	return __atomic_load_n(count, __ATOMIC_RELAXED) == n;
}

/* The engine's sockets, and who follows it. */
struct side {
	void *pub, *router;
	char endpoint[64], replay[64];
	struct kv_follow *f;
};

static void *bind_any(void *zmq, int type, char *ret_endpoint, size_t size)
{
	void *socket = zmq_socket(zmq, type);
	int wait_ms = 5000, zero = 0;

	zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof(zero));
	zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof(wait_ms));
	if (zmq_bind(socket, "tcp://127.0.0.1:*"))
		abort();
	zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, ret_endpoint, &size);
	return socket;
}

static void open_side(struct side *s, void *zmq, struct kv_follow_source *source, bool replay)
{
	struct kv_follow_limits limits = KV_FOLLOW_LIMITS;
	char subscription[8];

	n_told = n_complete = 0;
	memset(problems, 0, sizeof(problems));
	limits.problem_ns = 0;
	limits.index.max_bytes = 16 << 20;
	s->f = kv_follow_new(&limits, &sink, problem, NULL);
	s->pub = bind_any(zmq, ZMQ_XPUB, s->endpoint, sizeof(s->endpoint));
	s->router = bind_any(zmq, ZMQ_ROUTER, s->replay, sizeof(s->replay));
	source->name = "e";
	source->endpoint = s->endpoint;
	source->replay = replay ? s->replay : NULL;
	CHECK_EQ(kv_follow_add(s->f, source), 0);
	CHECK(zmq_recv(s->pub, subscription, sizeof(subscription), 0) >= 0);
}

static void close_side(struct side *s)
{
	kv_follow_free(s->f);
	zmq_close(s->pub);
	zmq_close(s->router);
}

static void send_frames(void *socket, yyjson_val *vector)
{
	yyjson_val *frame;
	size_t i, max;

	yyjson_arr_foreach (yyjson_obj_get(vector, "frames"), i, max, frame) {
		unsigned char *bytes;
		size_t n = unhex(yyjson_get_str(frame), &bytes);

		zmq_send(socket, bytes, n, i + 1 < max ? ZMQ_SNDMORE : 0);
		free(bytes);
	}
}

/* What comes in is that, after the frame that says who asks. */
static void check_request(void *router, yyjson_val *vector, zmq_msg_t *ret_who)
{
	yyjson_val *frame;
	size_t i, max;

	zmq_msg_init(ret_who);
	CHECK(zmq_msg_recv(ret_who, router, 0) > 0);
	yyjson_arr_foreach (yyjson_obj_get(vector, "frames"), i, max, frame) {
		unsigned char *want, got[64];
		int n = unhex(yyjson_get_str(frame), &want), more = 0;
		size_t size = sizeof(more);

		CHECK_EQ(zmq_recv(router, got, sizeof(got), 0), n);
		CHECK_MEM(got, want, n);
		zmq_getsockopt(router, ZMQ_RCVMORE, &more, &size);
		CHECK_EQ(more, i + 1 < max);
		free(want);
	}
}

static void answer(void *router, zmq_msg_t *who, yyjson_val *vector)
{
	zmq_send(router, zmq_msg_data(who), zmq_msg_size(who), ZMQ_SNDMORE);
	send_frames(router, vector);
}

/* Blocks that its payload stores; -1: it is no batch of events. */
static int blocks_of(yyjson_val *vector)
{
	struct kv_decode *d = kv_decode_new();
	unsigned char *bytes;
	size_t n = unhex(yyjson_get_str(yyjson_arr_get_last(yyjson_obj_get(vector, "frames"))),
			 &bytes);
	int err = kv_decode(d, bytes, n), blocks = kv_decode_batch(d)->n_hashes;

	kv_decode_free(d);
	free(bytes);
	return err ? -1 : blocks;
}

/* If its number is read, it is the first. */
static void live(void *zmq, yyjson_val *vector)
{
	yyjson_val *want = yyjson_obj_get(vector, "expect");
	struct kv_follow_source source = {
		.first = yyjson_get_uint(yyjson_obj_get(want, "seq")),
		.pod = yyjson_get_str(yyjson_obj_get(want, "pod")),
		.engine = {.model = "m"},
	};
	bool bad = yyjson_get_bool(yyjson_obj_get(want, "error"));
	bool load = yyjson_equals_str(yyjson_obj_get(want, "topic"), "load");
	int blocks = bad || load ? 0 : blocks_of(vector);
	struct side s;

	open_side(&s, zmq, &source, false);
	send_frames(s.pub, vector);
	if (bad) {
		CHECK(reaches(&problems[KV_PROBLEM_FRAMES], 1));
	} else {
		CHECK(reaches(&n_complete, 1));
		CHECK(load ? reaches(&problems[KV_PROBLEM_PAYLOAD], 1) : reaches(&n_told, blocks));
	}
	CHECK_EQ(problems[KV_PROBLEM_STRANGER], 0);
	close_side(&s);
	CHECK_EQ(n_complete, !bad);
	CHECK_EQ(n_told, blocks);
	CHECK_EQ(problems[KV_PROBLEM_PAYLOAD], load);
}

static void replayed(void *zmq, yyjson_val *vectors, const char *reply, yyjson_val *end)
{
	yyjson_val *request = vector_named(vectors, "replay-request");
	struct kv_follow_source source = {
		.first = yyjson_get_uint(
			yyjson_obj_get(yyjson_obj_get(request, "expect"), "start_seq")),
		.engine = {.model = "m"},
	};
	struct side s;
	zmq_msg_t who;

	open_side(&s, zmq, &source, true);
	check_request(s.router, request, &who);
	answer(s.router, &who, vector_named(vectors, reply));
	CHECK(blocks_of(vector_named(vectors, reply)) > 0);
	CHECK(reaches(&n_told, blocks_of(vector_named(vectors, reply))));
	CHECK_EQ(n_complete, 0);
	answer(s.router, &who, end);
	CHECK(reaches(&n_complete, 1));
	CHECK_EQ(problems[KV_PROBLEM_FRAMES], 0);
	zmq_msg_close(&who);
	close_side(&s);
}

int main(void)
{
	yyjson_doc *doc = yyjson_read_file(VECTORS, 0, NULL, NULL);
	yyjson_val *vectors = yyjson_obj_get(yyjson_doc_get_root(doc), "vectors"), *v;
	yyjson_doc *alone = yyjson_read(more, sizeof(more) - 1, 0);
	yyjson_val *root = yyjson_doc_get_root(alone);
	void *zmq = zmq_ctx_new();
	size_t i, max, n = 0;

	TEST("live: topic, number, payload; other messages are no events")
	{
		yyjson_arr_foreach (vectors, i, max, v) {
			unsigned int failed = check_state.bad;

			if (!yyjson_equals_str(yyjson_obj_get(v, "socket"), "SUB recv"))
				continue;
			live(zmq, v);
			n++;
			if (check_state.bad != failed)
				printf("# in %s\n", yyjson_get_str(yyjson_obj_get(v, "name")));
		}
		CHECK_EQ(n, 7);
		yyjson_arr_foreach (yyjson_obj_get(root, "live"), i, max, v)
			live(zmq, v);
	}

	TEST("replays: the request; answers with and without topic, until the end")
	{
		yyjson_val *end = vector_named(vectors, "replay-end-new");

		replayed(zmq, vectors, "replay-reply-old-2frame",
			 vector_named(vectors, "replay-end-old"));
		replayed(zmq, vectors, "replay-reply-new-3frame", end);
		replayed(zmq, vectors, "replay-reply-new-empty-topic", end);
		yyjson_arr_foreach (yyjson_obj_get(root, "end"), i, max, v)
			replayed(zmq, vectors, "replay-reply-old-2frame", v);
	}
	zmq_ctx_term(zmq);
	yyjson_doc_free(doc);
	yyjson_doc_free(alone);
	return check_done();
}
