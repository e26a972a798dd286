// SPDX-License-Identifier: BSD-2-Clause
#include "engines/dns_source.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/timer.h"
#include "engines/complaint.h"
#include "engines/resolver.h"
#include "engines/time.h"

#define TARGETS_MOST 64
#define SECOND_MS 1000ull
#define DNS_SERVERS_LEN 512

enum { ABOUT_FAILURE = 1, ABOUT_NOTHING, ABOUT_TOO_MANY };

struct target {
	char name[DNS_NAME_MAX];
	__u16 port; /* network byte order */
	struct dns_source *source;
};

struct dns_source {
	char name[DNS_NAME_MAX];
	struct dns_options options;
	char servers[DNS_SERVERS_LEN]; /* empty: those of resolv.conf */
	struct event_base *base;
	struct resolver *resolver; /* NULL: could not be made again */
	struct kv_timer timer;
	struct event end; /* of a round */
	struct address_set set;
	struct dns_stats stats;
	struct complaint complaint;
	/* the round */
	struct address_set next;
	__u32 ttl;
	bool answered;
	bool failed;
	char why[96];
	unsigned int pending;
	unsigned int n_targets;
	struct target targets[TARGETS_MOST];
	struct dns_answer answer;
};

static void question_done(struct dns_source *s)
{
	if (!--s->pending)
		event_active(&s->end, EV_TIMEOUT, 0);
}

static void failed(struct dns_source *s, const char *why)
{
	s->failed = true;
	snprintf(s->why, sizeof(s->why), "%s", why);
}

/* Whether there is an answer to be read, in s->answer. */
static bool answer_of(struct dns_source *s, enum resolved result, const unsigned char *message,
		      size_t len, enum dns_type type, const char *why)
{
	if (result == RESOLVED_FAILED)
		failed(s, why);
	if (result != RESOLVED)
		return false;
	if (dns_answer_read(message, len, type, &s->answer)) {
		failed(s, "the answer is no DNS message");
		return false;
	}
	if (!s->answered || s->answer.ttl < s->ttl)
		s->ttl = s->answer.ttl;
	s->answered = true;
	return true;
}

static void addresses(struct target *t, enum resolved result, const unsigned char *message,
		      size_t len, enum dns_type type, const char *why)
{
	struct dns_source *s = t->source;

	if (answer_of(s, result, message, len, type, why))
		for (__u32 i = 0; i < s->answer.n; i++) {
			struct kv_addr addr = {.port = t->port};

			memcpy(addr.addr, s->answer.addr[i], sizeof(addr.addr));
			if (!kv_addr_is_any(&addr))
				address_set_add(&s->next, &addr);
		}
	question_done(s);
}

static void on_a(void *arg, enum resolved result, const unsigned char *message, size_t len,
		 const char *why)
{
	addresses(arg, result, message, len, DNS_A, why);
}

static void on_aaaa(void *arg, enum resolved result, const unsigned char *message, size_t len,
		    const char *why)
{
	addresses(arg, result, message, len, DNS_AAAA, why);
}

static void ask_addresses(struct dns_source *s, const char *name, __u16 port)
{
	struct target *t;

	for (unsigned int i = 0; i < s->n_targets; i++)
		if (s->targets[i].port == port && !strcasecmp(s->targets[i].name, name))
			return;
	if (s->n_targets == TARGETS_MOST) {
		s->next.passed_over++;
		return;
	}
	t = &s->targets[s->n_targets++];
	t->source = s;
	t->port = port;
	snprintf(t->name, sizeof(t->name), "%s", name);
	s->pending += 2;
	resolver_ask(s->resolver, t->name, DNS_A, on_a, t);
	resolver_ask(s->resolver, t->name, DNS_AAAA, on_aaaa, t);
}

/* The services of the best priority: the others are for when none of these is there (RFC 2782),
 * and that is a matter of health, not of names. */
static void on_srv(void *arg, enum resolved result, const unsigned char *message, size_t len,
		   const char *why)
{
	struct dns_source *s = arg;
	struct dns_srv *found = NULL;
	__u32 n = 0, best = UINT32_MAX;

	if (answer_of(s, result, message, len, DNS_SRV, why)) {
		n = s->answer.n;
		/* answers to the next questions overwrite this one */
		found = malloc(n * sizeof(*found) + 1);
		if (found)
			memcpy(found, s->answer.srv, n * sizeof(*found));
		else
			failed(s, "out of memory");
	}
	for (__u32 i = 0; found && i < n; i++)
		best = found[i].priority < best ? found[i].priority : best;
	for (__u32 i = 0; found && i < n; i++)
		if (found[i].priority == best)
			ask_addresses(s, found[i].target, htons(found[i].port));
	free(found);
	question_done(s);
}

static int open_resolver(struct dns_source *s)
{
	return resolver_new(s->base, *s->servers ? s->servers : NULL, s->options.timeout_ms,
			    &s->resolver);
}

/* resolv.conf is read when a resolver is made, and may have been written since: by DHCP, after a
 * start without network. */
static void renew_resolver(struct dns_source *s)
{
	resolver_free(s->resolver);
	s->resolver = NULL;
	open_resolver(s);
}

static void on_timer(void *arg)
{
	struct dns_source *s = arg;

	if (!s->resolver || (s->stats.failing && !*s->servers))
		renew_resolver(s);
	s->next = (struct address_set){};
	s->n_targets = 0;
	s->answered = s->failed = false;
	s->stats.rounds++;
	/* the round itself is pending while its questions are made: answers may come at once */
	s->pending = 1;
	if (!s->resolver)
		failed(s, "no resolver can be made");
	else if (s->options.port)
		ask_addresses(s, s->name, htons(s->options.port));
	else {
		s->pending++;
		resolver_ask(s->resolver, s->name, DNS_SRV, on_srv, s);
	}
	question_done(s);
}

static void complain(struct dns_source *s)
{
	uint64_t now_ns = kv_now_ns();
	const char *records = s->options.port ? "A or AAAA" : "SRV";

	if (s->failed) {
		snprintf(s->stats.why, sizeof(s->stats.why), "%s", s->why);
		if (complaint_due(&s->complaint, ABOUT_FAILURE, now_ns))
			kv_warn("discovery: %s: %s; the %u backends known are kept", s->name,
				s->why, s->set.n);
	} else if (!s->next.n) {
		snprintf(s->stats.why, sizeof(s->stats.why), "no %s records", records);
		if (complaint_due(&s->complaint, ABOUT_NOTHING, now_ns))
			kv_warn("discovery: %s has no %s records (is the name right?); the %u "
				"backends known are kept",
				s->name, records, s->set.n);
	} else if (s->next.passed_over) {
		if (complaint_due(&s->complaint, ABOUT_TOO_MANY, now_ns))
			kv_warn("discovery: %s names more than there is room for; %u are passed "
				"over",
				s->name, s->next.passed_over);
	} else if (complaint_over(&s->complaint, now_ns)) {
		kv_info("discovery: %s is answered again", s->name);
	}
}

static void next_round(struct dns_source *s)
{
	__u64 ms = (s->answered ? s->ttl : 0) * SECOND_MS;

	if (s->stats.failing)
		ms = (__u64)s->options.least_ms << (s->stats.failing < 10 ? s->stats.failing : 10);
	if (ms < s->options.least_ms)
		ms = s->options.least_ms;
	if (ms > s->options.most_ms)
		ms = s->options.most_ms;
	kv_timer_set(&s->timer, ms, 0);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct dns_source *s = arg;

	(void)fd;
	(void)what;
	s->stats.failures += s->failed;
	s->stats.empty += !s->next.n;
	s->stats.failing = s->failed || !s->next.n ? s->stats.failing + 1 : 0;
	if (!s->stats.failing)
		s->stats.answered_ns = kv_now_ns();
	complain(s);
	next_round(s);
	if (s->options.ended)
		s->options.ended(s->options.arg);
	if (s->failed)
		for (__u32 i = 0; i < s->set.n; i++)
			address_set_add(&s->next, &s->set.at[i]);
	if (!s->next.n || address_set_equal(&s->next, &s->set))
		return;
	s->set = s->next;
	s->stats.changes++;
	s->options.changed(s->options.arg, &s->set);
}

int dns_source_new(struct event_base *base, const struct dns_options *options,
		   struct dns_source **ret)
{
	struct dns_source *s;
	int err;

	if (strlen(options->name) >= DNS_NAME_MAX ||
	    (options->servers && strlen(options->servers) >= DNS_SERVERS_LEN))
		return -ENAMETOOLONG;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->options = *options;
	snprintf(s->name, sizeof(s->name), "%s", options->name);
	if (options->servers)
		strcpy(s->servers, options->servers);
	if (options->known)
		s->set = *options->known;
	s->base = base;
	err = open_resolver(s);
	if (!err)
		err = kv_timer_open(&s->timer, base, on_timer, s);
	if (err) {
		resolver_free(s->resolver);
		free(s);
		return err;
	}
	evtimer_assign(&s->end, base, on_end, s);
	kv_timer_set(&s->timer, 0, 0);
	*ret = s;
	return 0;
}

void dns_source_free(struct dns_source *s)
{
	if (!s)
		return;
	kv_timer_close(&s->timer);
	event_del(&s->end);
	resolver_free(s->resolver);
	free(s);
}

const struct dns_stats *dns_source_stats(const struct dns_source *s)
{
	return &s->stats;
}
