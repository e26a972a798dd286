// SPDX-License-Identifier: BSD-2-Clause
/* Records for people: one line each, that fits 120 characters. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "common/addr.h"
#include "common/config.h"
#include "table.h"
#include "trace.h"

#define SECOND 1000000000ull

static const struct {
	const char *name;
	const char *meaning;
} counters[] = {
#define COUNTER_ROW(name, meaning) [KV_CNT_##name] = {#name, meaning},
	KV_COUNTERS(COUNTER_ROW)
#undef COUNTER_ROW
};

__u64 trace_ttft_ns(const struct kv_trace *t)
{
	return t->answered_ns > t->at_ns ? t->answered_ns - t->at_ns : 0;
}

__u64 trace_took_ns(const struct kv_trace *t)
{
	return t->ended_ns > t->at_ns ? t->ended_ns - t->at_ns : 0;
}

__u32 trace_diverted(const struct kv_trace *t)
{
	return t->best > t->matched ? t->best - t->matched : 0;
}

const char *trace_lane(const struct kv_trace *t)
{
	return t->flags & KV_TRACE_AGENT ? "agent" : "express";
}

const char *trace_reason(const struct kv_trace *t, const char **ret_meaning)
{
	const char *name;

	*ret_meaning = NULL;
	if (!(t->flags & KV_TRACE_AGENT) || !t->reason || t->reason > KV_CNT_MAX)
		return NULL;
	*ret_meaning = counters[t->reason - 1].meaning;
	name = counters[t->reason - 1].name;
	return strncmp(name, "agent_", 6) ? name : name + 6;
}

const char *trace_end_name(const struct kv_trace *t)
{
	static const char *const names[KV_TRACE_END_MAX] = {
		[KV_TRACE_DONE] = "done",	[KV_TRACE_REFUSED] = "refused",
		[KV_TRACE_ABORTED] = "aborted", [KV_TRACE_BROKEN] = "broken",
		[KV_TRACE_FAILED] = "failed",
	};

	return t->end < KV_TRACE_END_MAX ? names[t->end] : NULL;
}

const char *trace_backend(const struct view *view, __u32 id, char buf[KV_NAME_LEN])
{
	const struct kv_backend *b = id == KV_TRACE_NOBODY ? NULL : view_backend(view, id);

	if (id == KV_TRACE_NOBODY)
		return "-";
	if (b)
		return view_name(b->name, buf);
	snprintf(buf, KV_NAME_LEN, "#%u", id);
	return buf;
}

/* LANE: express, or why it was left to the agent. */
#define LINE "%-12s %-12s %-15.39s %6s %6s %-9.24s %-9.24s %6s %3s %3s %6s %6s %6s %s\n"

void trace_heading(FILE *f)
{
	fprintf(f, LINE, "WHEN", "LANE", "CLIENT", "TOKENS", "MATCH", "CHOICE", "SECOND", "DIVERT",
		"TRY", "ST", "TTFT", "BYTES", "TOOK", "END");
}

static const char *duration(__u64 ns, char buf[TABLE_TEXT])
{
	double s = ns / 1e9;

	if (!ns)
		return "-";
	if (s < 0.01)
		snprintf(buf, TABLE_TEXT, "%.1fms", s * 1e3);
	else if (s < 1)
		snprintf(buf, TABLE_TEXT, "%.0fms", s * 1e3);
	else if (s < 1000)
		snprintf(buf, TABLE_TEXT, "%.2fs", s);
	else
		snprintf(buf, TABLE_TEXT, "%.0fs", s);
	return buf;
}

/* The monotonic clock's moment as the wall clock would show it now. */
static void moment(__u64 at_ns, char *buf, size_t size)
{
	struct timespec now;
	__u64 at;
	time_t s;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now); /* only shown */
	at = now.tv_sec * SECOND + now.tv_nsec - kv_now_ns() + at_ns;
	s = at / SECOND;
	localtime_r(&s, &tm);
	n = strftime(buf, size, "%H:%M:%S", &tm);
	snprintf(buf + n, size - n, ".%03u", (unsigned int)(at % SECOND / 1000000));
}

static const char *address(const struct kv_trace *t, char buf[KV_ADDR_TEXT])
{
	struct kv_addr a = {.port = t->port};
	char *end;

	memcpy(a.addr, t->client, sizeof(a.addr));
	kv_addr_format(&a, buf, KV_ADDR_TEXT);
	end = strrchr(buf, ':');
	if (end)
		*end = 0;
	return buf;
}

static void print_why(FILE *f, const struct view *view, const struct kv_trace *t)
{
	char name[KV_NAME_LEN], tokens[TABLE_TEXT];

	fprintf(f, "  %s: %u of %u rungs looked up;",
		t->backend == KV_TRACE_NOBODY ? "nobody asked" : kv_policy_name(t->rule), t->looked,
		t->rungs);
	for (__u32 i = 0; i < t->listed && i < KV_TRACE_BACKENDS; i++) {
		const struct kv_trace_backend *b = &t->backends[i];

		fprintf(f, " %s%s", trace_backend(view, b->backend, name),
			b->backend == t->backend ? "*" : "");
		if (b->matched)
			fprintf(f, " holds %s", short_number(b->matched, tokens));
		if (b->matched && b->discount)
			fprintf(f, " (%u%% of it counts)", KV_DISCOUNT_ALL - b->discount);
		fprintf(f, " queue %s/%u", short_number(b->wait, tokens), b->requests);
		if (t->flags & KV_TRACE_BY_COST)
			fprintf(f, " cost %.3fs", b->cost / 1024e3);
		fputc(i + 1 < t->listed ? ',' : '\n', f);
	}
	if (!t->listed)
		fputc('\n', f);
}

void trace_line(FILE *f, const struct view *view, const struct kv_trace *t, bool why)
{
	char when[32], client[KV_ADDR_TEXT], total[TABLE_TEXT], matched[TABLE_TEXT],
		choice[KV_NAME_LEN], second[KV_NAME_LEN], diverted[TABLE_TEXT], ttft[TABLE_TEXT],
		bytes[TABLE_TEXT], took[TABLE_TEXT], tries[8], status[8];
	const char *meaning, *reason = trace_reason(t, &meaning);

	moment(t->at_ns, when, sizeof(when));
	snprintf(tries, sizeof(tries), "%u", t->decisions);
	snprintf(status, sizeof(status), "%u", t->status);
	fprintf(f, LINE, when, reason ?: trace_lane(t), address(t, client),
		t->total ? short_number(t->total, total) : "-", short_number(t->matched, matched),
		trace_backend(view, t->backend, choice), trace_backend(view, t->second, second),
		trace_diverted(t) ? short_number(trace_diverted(t), diverted) : "-", tries,
		t->status ? status : "-", duration(trace_ttft_ns(t), ttft),
		t->ended_ns ? short_number(t->bytes, bytes) : "-", duration(trace_took_ns(t), took),
		trace_end_name(t) ?: "open");
	if (why)
		print_why(f, view, t);
}
