// SPDX-License-Identifier: BSD-2-Clause
/* One publisher: its order, its replay, its share of the work. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "events/follow_private.h"

#define SHARE_NS 100000	   /* of work, per turn */
#define DECODE_BYTES 16384 /* per step: some 30 us, as is … */
#define APPLY_BLOCKS 64	   /* … this */
#define REPLAY_MESSAGES 64

void source_say(struct source *s, enum kv_problem what, const char *text)
{
	follow_say(s->follow, &s->said_ns[what], s->name, what, text);
}

/* ---- the sequence's orders ----------------------------------------------------------- */

static struct task *add_task(struct source *s, enum task_kind kind)
{
	struct task *t = malloc(sizeof(*t));

	if (!t)
		return NULL;
	t->kind = kind;
	STAILQ_INSERT_TAIL(&s->tasks, t, link);
	return t;
}

static void op_release(void *ctx, struct kv_message *m)
{
	(void)ctx;
	zmq_msg_close(m->payload);
	free(m->payload);
}

static void op_apply(void *ctx, struct kv_message *m)
{
	struct source *s = ctx;
	struct task *t = add_task(s, TASK_APPLY);

	if (t) {
		zmq_msg_init(&t->payload);
		zmq_msg_move(&t->payload, m->payload);
	}
	op_release(ctx, m);
}

static void op_stop(void *ctx)
{
	struct source *s = ctx;

	if (s->replay)
		zmq_close(s->replay);
	s->replay = NULL;
}

static void op_ask(void *ctx, uint64_t from)
{
	struct source *s = ctx;
	uint64_t seq = htobe64(from);

	op_stop(s);
	s->replay = feed_socket(s->follow, ZMQ_DEALER, s->follow->limits.replay_queue);
	if (!s->replay || zmq_connect(s->replay, s->replay_endpoint))
		return; /* times out */
	/* A delimiter before the number, as REQ would have it. */
	zmq_send(s->replay, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
	zmq_send(s->replay, &seq, sizeof(seq), ZMQ_DONTWAIT);
}

static void op_restarted(void *ctx)
{
	add_task(ctx, TASK_RESTARTED);
}

static void op_unsure(void *ctx)
{
	add_task(ctx, TASK_UNSURE);
}

static void op_complete(void *ctx)
{
	add_task(ctx, TASK_COMPLETE);
}

const struct kv_sequence_ops source_ops = {
	.apply = op_apply,
	.release = op_release,
	.ask = op_ask,
	.stop = op_stop,
	.restarted = op_restarted,
	.unsure = op_unsure,
	.complete = op_complete,
};

/* ---- what comes in ------------------------------------------------------------------- */

static bool message_of(struct source *s, uint64_t seq, zmq_msg_t *payload, struct kv_message *ret)
{
	size_t n = zmq_msg_size(payload);
	zmq_msg_t *kept = malloc(sizeof(*kept));

	if (!kept)
		return false;
	zmq_msg_init(kept);
	zmq_msg_move(kept, payload);
	*ret = (struct kv_message){.seq = seq,
				   .digest = XXH3_64bits(zmq_msg_data(kept), n),
				   .bytes = n + sizeof(*kept),
				   .payload = kept};
	s->stats.messages++;
	s->stats.bytes += n;
	return true;
}

void source_live(struct source *s, uint64_t seq, zmq_msg_t *payload)
{
	uint64_t now = kv_now_ns();
	struct kv_message m;

	if (!message_of(s, seq, payload, &m))
		return; /* a gap */
	s->stats.last_ns = now;
	kv_sequence_live(&s->sequence, &m, now);
}

void source_replay(struct source *s)
{
	struct frames f;
	uint64_t seq;

	for (int i = 0; i < REPLAY_MESSAGES && s->replay && frames_receive(s->replay, &f) > 0;
	     i++) {
		uint64_t now = kv_now_ns();
		struct kv_message m;

		if (!frames_seq(&f, &seq)) {
			s->stats.bad_frames++;
			source_say(s, KV_PROBLEM_FRAMES,
				   "a replayed message is not made of "
				   "delimiter, (topic,) number and payload");
		} else if (seq == UINT64_MAX || !zmq_msg_size(&f.part[f.n - 1])) {
			kv_sequence_replay_end(&s->sequence, now);
		} else if (message_of(s, seq, &f.part[f.n - 1], &m)) {
			kv_sequence_replayed(&s->sequence, &m, now);
		}
		frames_close(&f);
	}
}

void source_monitor(struct source *s)
{
	struct frames f;

	while (s->monitor && frames_receive(s->monitor, &f) > 0) {
		uint16_t event = 0;

		if (zmq_msg_size(&f.part[0]) >= sizeof(event))
			memcpy(&event, zmq_msg_data(&f.part[0]), sizeof(event));
		frames_close(&f);
		switch (event) {
		case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
			s->stats.connects++;
			s->down_ns = 0;
			kv_sequence_connected(&s->sequence, kv_now_ns());
			break;
		case ZMQ_EVENT_DISCONNECTED:
			s->stats.disconnects++;
			s->down_ns = s->down_ns ? s->down_ns : kv_now_ns();
			source_say(s, KV_PROBLEM_PEER, "the connection ended; trying again");
			break;
		case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
		case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
		case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
			source_say(s, KV_PROBLEM_PEER,
				   "who answers there is no ZeroMQ publisher: check the address");
			break;
		default:
			break;
		}
	}
}

void source_reconnect(struct source *s, uint64_t now)
{
	/* libzmq tries again by itself, but never after an error of the protocol: a peer that is no
	 * publisher yet, a message that was too long. */
	if (!s->monitor || !s->down_ns || now - s->down_ns < s->follow->limits.reconnect_ns)
		return;
	s->down_ns = now;
	source_say(s, KV_PROBLEM_PEER, "no ZeroMQ publisher answers there; trying again");
	zmq_disconnect(s->feed->sub, s->feed->endpoint);
	zmq_connect(s->feed->sub, s->feed->endpoint);
}

/* ---- its work ------------------------------------------------------------------------ */

static void end_task(struct source *s)
{
	struct task *t = STAILQ_FIRST(&s->tasks);

	STAILQ_REMOVE_HEAD(&s->tasks, link);
	if (t->kind == TASK_APPLY)
		zmq_msg_close(&t->payload);
	free(t);
	s->decoding = s->applying = false;
}

void source_drop_work(struct source *s)
{
	while (!STAILQ_EMPTY(&s->tasks))
		end_task(s);
}

static void count(struct source *s, const struct kv_batch *b)
{
	s->stats.unknown_events += b->unknown_events;
	s->stats.unknown_fields += b->unknown_fields;
	s->stats.malformed_events += b->malformed_events;
	for (size_t i = 0; i < b->n_events; i++)
		if (b->events[i].kind == KV_EVENT_CLEARED)
			kv_sequence_cleared(&s->sequence);
}

static void work_message(struct source *s, struct task *t)
{
	int ret;

	if (!s->decoding) {
		const void *data = zmq_msg_data(&t->payload);
		size_t len = zmq_msg_size(&t->payload);

		if (s->feed->polled)
			kv_decode_begin_polled(s->decode, data, len, &s->about);
		else
			kv_decode_begin(s->decode, data, len);
		s->decoding = true;
	}
	if (!s->applying) {
		ret = kv_decode_step(s->decode, DECODE_BYTES);
		if (ret < 0) {
			s->stats.bad_payloads++;
			source_say(s, KV_PROBLEM_PAYLOAD, "a message is not a batch of KV events");
			kv_sequence_spoiled(&s->sequence);
			end_task(s);
		}
		if (ret <= 0)
			return;
		if (kv_decode_batch(s->decode)->anew)
			kv_index_unsure(s->follow->index, s->id);
		kv_index_begin(&s->apply, s->id, kv_decode_batch(s->decode));
		s->applying = true;
	}
	if (!kv_index_step(s->follow->index, &s->apply, APPLY_BLOCKS))
		return;
	count(s, kv_decode_batch(s->decode));
	end_task(s);
}

static void work_task(struct source *s)
{
	struct task *t = STAILQ_FIRST(&s->tasks);

	switch (t->kind) {
	case TASK_APPLY:
		work_message(s, t);
		break;
	case TASK_RESTARTED:
		s->about = (struct kv_polled){0};
		kv_index_clear(s->follow->index, s->id);
		end_task(s);
		break;
	case TASK_UNSURE:
		kv_index_unsure(s->follow->index, s->id);
		source_say(s, KV_PROBLEM_GAP,
			   "events were missed and cannot be had: what it holds is not known");
		end_task(s);
		break;
	case TASK_COMPLETE:
		kv_index_complete(s->follow->index, s->id);
		end_task(s);
		break;
	}
}

bool source_work(struct source *s)
{
	uint64_t end = kv_now_ns() + SHARE_NS;

	while (!STAILQ_EMPTY(&s->tasks)) {
		work_task(s);
		if (kv_now_ns() > end)
			break;
	}
	return !STAILQ_EMPTY(&s->tasks);
}

void source_show(struct source *s)
{
	s->stats.sequence = s->sequence.stats;
	s->stats.replaying = s->sequence.state == KV_SEQUENCE_REPLAY;
	s->stats.connected = !s->down_ns;
	s->stats.complete = kv_index_is_complete(s->follow->index, s->id);
	s->stats.held = kv_index_held(s->follow->index, s->id);
	s->stats.block = kv_index_block(s->follow->index, s->id);
	kv_index_stats(s->follow->index, s->id, &s->stats.index);
	s->shown = s->stats;
}
