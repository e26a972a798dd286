// SPDX-License-Identifier: BSD-2-Clause
/* Gaps, replays, restarts: each case is what comes in, and what must come out. */
#include <stdarg.h>
#include <stdlib.h>

#include "check.h"
#include "events/sequence.h"

static struct kv_sequence s;
static char out[4096];
static unsigned int given, taken;
static uint64_t now;

static void say(const char *format, ...)
{
	size_t n = strlen(out);
	va_list args;

	va_start(args, format);
	vsnprintf(out + n, sizeof(out) - n, format, args);
	va_end(args);
}

static void apply(void *ctx, struct kv_message *m)
{
	(void)ctx;
	taken++;
	say("%llu ", (unsigned long long)m->seq);
}

static void release(void *ctx, struct kv_message *m)
{
	(void)ctx;
	(void)m;
	taken++;
}

static void ask(void *ctx, uint64_t from)
{
	(void)ctx;
	say("ask%llu ", (unsigned long long)from);
}

static void stop(void *ctx)
{
	(void)ctx;
}

static void restarted(void *ctx)
{
	(void)ctx;
	say("restarted ");
}

static void unsure(void *ctx)
{
	(void)ctx;
	say("unsure ");
}

static void complete(void *ctx)
{
	(void)ctx;
	say("complete ");
}

static const struct kv_sequence_ops ops = {apply, release, ask, stop, restarted, unsure, complete};

/* life: which of the engine's, so that messages of one number differ. */
static struct kv_message message(uint64_t seq, uint64_t life)
{
	given++;
	return (struct kv_message){.seq = seq, .digest = seq * 1000 + life, .bytes = 100};
}

/*
 * Steps, separated by blanks: "C" connected, "5" live, "r5" replayed, "E" replay's end, "L" from
 * here on messages of another life, "t" time-out, "w" the pause passes, "X" spoiled.
 */
static void run(const char *steps, struct kv_sequence_limits limits)
{
	uint64_t life = 1;

	out[0] = 0;
	given = taken = 0;
	now = 1000;
	kv_sequence_init(&s, &limits, &ops, NULL);
	for (const char *p = steps; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
		struct kv_message m;

		now += 1000;
		switch (*p) {
		case 'C':
			kv_sequence_connected(&s, now);
			break;
		case 'E':
			kv_sequence_replay_end(&s, now);
			break;
		case 'L':
			life++;
			break;
		case 't':
			kv_sequence_tick(&s, now += limits.idle_ns);
			break;
		case 'w':
			now += limits.pause_ns;
			break;
		case 'X':
			kv_sequence_spoiled(&s);
			break;
		case 'r':
			m = message(strtoull(p + 1, NULL, 10), life);
			kv_sequence_replayed(&s, &m, now);
			break;
		default:
			m = message(strtoull(p, NULL, 10), life);
			kv_sequence_live(&s, &m, now);
		}
	}
	kv_sequence_exit(&s);
	CHECK_EQ(taken, given);
	if (out[0])
		out[strlen(out) - 1] = 0;
}

#define CASE(steps, expected)                                                                      \
	do {                                                                                       \
		run(steps, limits);                                                                \
		CHECK_STR(out, expected);                                                          \
	} while (0)

int main(void)
{
	struct kv_sequence_limits limits = KV_SEQUENCE_LIMITS;

	TEST("the beginning: all there is, nothing yet, the buffer has lost it")
	{
		CASE("C r0 r1 r2 E 3 4", "ask0 0 1 2 complete 3 4");
		CASE("C E 0 1", "ask0 complete complete 0 1");
		CASE("C r5 r6 E 7", "ask0 5 6 7");
		CASE("C E 4 5", "ask0 complete unsure 4 5");
		CASE("0 1", "complete 0 1");
		CASE("3 r0 r1 r2 E 4", "ask0 0 1 2 complete 3 4");
	}

	TEST("live events are held while a replay runs; what both bring is applied once")
	{
		CASE("C 3 r0 r1 4 r2 r3 r4 E 5", "ask0 0 1 2 3 4 complete 5");
		CASE("C r0 r1 3 4 E 5", "ask0 0 1 complete ask1");
		CASE("C r0 r1 3 4 E r1 r2 E 5", "ask0 0 1 complete ask1 2 complete 3 4 5");
	}

	TEST("a gap is asked for, from the message before it")
	{
		CASE("0 1 5 r1 r2 r3 r4 E 6", "complete 0 1 ask1 2 3 4 complete 5 6");
		CASE("0 1 5 6 r1 r2 r3 r4 r5 r6 E 7", "complete 0 1 ask1 2 3 4 5 6 complete 7");
	}

	TEST("a gap that cannot be filled: unsure, and on")
	{
		CASE("0 1 5 r3 r4 r5 E 6", "complete 0 1 ask1 unsure 3 4 5 6");
		CASE("0 1 5 r1 r3 r4 E 6", "complete 0 1 ask1 unsure 3 4 5 6");
		CASE("0 1 5 t 6", "complete 0 1 ask1 unsure 5 6");
		CASE("0 1 5 t 8 9", "complete 0 1 ask1 unsure 5 unsure 8 9");
		CASE("0 1 5 t w 8 r5 r6 r7 E", "complete 0 1 ask1 unsure 5 ask5 6 7 8");
	}

	TEST("a replay with a hole, after some progress, is asked for again from there")
	{
		CASE("0 1 6 r1 r2 r4 r2 r3 r4 r5 E 7",
		     "complete 0 1 ask1 2 ask2 3 4 5 complete 6 7");
		CASE("0 1 5 r1 r2 r4 r2 r4 E 6", "complete 0 1 ask1 2 ask2 unsure 4 5 6");
	}

	TEST("the number goes back: another life")
	{
		CASE("0 1 2 L 0 1", "complete 0 1 2 restarted ask0");
		CASE("0 1 2 L 0 1 r0 r1 E 2", "complete 0 1 2 restarted ask0 0 1 complete 2");
		CASE("0 1 2 L 1 E", "complete 0 1 2 restarted ask0 complete unsure 1");
		CASE("0 1 2 2 3", "complete 0 1 2 3");
		CASE("0 1 2 L 2 r0 r1 E 3", "complete 0 1 2 restarted ask0 0 1 complete 2 3");
	}

	TEST("another life that has the number already: told by the message before the gap")
	{
		CASE("0 1 2 L 5 r2 r0 r1 r2 r3 r4 E 6",
		     "complete 0 1 2 ask2 restarted ask0 0 1 2 3 4 complete ask4");
		CASE("0 1 2 L C E r0 E 1", "complete 0 1 2 ask2 restarted ask0 0 complete 1");
		CASE("0 1 2 C r2 E 3", "complete 0 1 2 ask2 complete 3");
	}

	TEST("a row of lives is not asked about each time")
	{
		CASE("0 1 L 0 r0 E 1 L 0 1 L 0 r0 t r0 E 1",
		     "complete 0 1 restarted ask0 0 complete 1 restarted restarted ask0 0 complete "
		     "1");
	}

	TEST("another life in the middle of a replay")
	{
		CASE("C 7 8 r0 r1 L 0 r0 E 1", "ask0 0 1 restarted ask0 0 complete 1");
	}

	TEST("what is held is bounded; the rest is asked for again")
	{
		limits.hold_count = 2;
		CASE("C 0 1 2 3 4 E 5 r1 r2 r3 r4 r5 E 6",
		     "ask0 complete complete 0 1 ask1 2 3 4 5 complete 6");
		limits.hold_count = 100;
		limits.hold_bytes = 250;
		CASE("C 0 1 2 3 E", "ask0 complete complete 0 1");
		limits = (struct kv_sequence_limits)KV_SEQUENCE_LIMITS;
	}

	TEST("a replay that never ends is given up")
	{
		unsigned int n = 0;

		kv_sequence_init(&s, &limits, &ops, NULL);
		kv_sequence_connected(&s, now = 0);
		while (s.state == KV_SEQUENCE_REPLAY && n < 1000) {
			struct kv_message m = message(n++, 1);

			kv_sequence_replayed(&s, &m, now += 1000000000);
			kv_sequence_tick(&s, now);
		}
		CHECK_EQ(n, 120);
		CHECK_EQ(s.stats.replays_failed, 1);
		kv_sequence_exit(&s);
	}

	TEST("no replay socket: gaps and new connections make unsure")
	{
		limits.replay = false;
		CASE("C 0 1 2", "complete 0 1 2");
		CASE("C 7 8", "7 8");
		CASE("0 1 4 5", "complete 0 1 unsure 4 5");
		CASE("0 1 C 2", "complete 0 1 unsure 2");
		CASE("0 1 2 0 1", "complete 0 1 2 restarted complete 0 1");
		CASE("0 X 1", "complete 0 unsure 1");
		limits.first = 1;
		CASE("C 1 2", "complete 1 2");
	}
	return check_done();
}
