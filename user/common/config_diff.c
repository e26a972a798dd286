// SPDX-License-Identifier: BSD-2-Clause
#include "common/config_diff.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/config_discover.h"
#include "common/config_values.h"

#define LIST_TEXT 112

/* What a walk over two configurations carries; err stays once it is set. */
struct walk {
	struct kv_diff diff;
	size_t room;
	int err;
};

static void __attribute__((format(printf, 3, 4)))
note(struct walk *w, struct kv_change change, const char *format, ...)
{
	va_list args;

	if (w->diff.n == w->room) {
		size_t room = w->room ? 2 * w->room : 16;
		struct kv_change *changes = realloc(w->diff.changes, room * sizeof(*changes));

		if (!changes) {
			w->err = -ENOMEM;
			return;
		}
		w->diff.changes = changes;
		w->room = room;
	}
	va_start(args, format);
	vsnprintf(change.text, sizeof(change.text), format, args);
	va_end(args);
	w->diff.changes[w->diff.n++] = change;
}

/* ---- the instance --------------------------------------------------------------------- */

/* All of these size or place what is made once at start. */
static void instance_text(struct walk *w, const char *key, const char *old, const char *new)
{
	if (strcmp(old, new))
		note(w, (struct kv_change){KV_CHANGE_INSTANCE, .restart = true, .key = key},
		     "%s: %s -> %s", key, *old ? old : "none", *new ? new : "none");
}

static void instance_count(struct walk *w, const char *key, __u64 old, __u64 new)
{
	char a[KV_VALUE_TEXT], b[KV_VALUE_TEXT];

	snprintf(a, sizeof(a), "%llu", (unsigned long long)old);
	snprintf(b, sizeof(b), "%llu", (unsigned long long)new);
	instance_text(w, key, a, b);
}

static void instance_list(struct walk *w, const char *key, const void *old, __u32 n_old,
			  const void *new, __u32 n_new, size_t entry)
{
	if (n_old != n_new || memcmp(old, new, entry * n_new))
		note(w, (struct kv_change){KV_CHANGE_INSTANCE, .restart = true, .key = key},
		     "%s: another list (%u -> %u entries)", key, n_old, n_new);
}

static void live_value(struct walk *w, const char *key, __u64 old, __u64 new,
		       char *(*format)(__u64, char *))
{
	char a[KV_VALUE_TEXT], b[KV_VALUE_TEXT];

	if (old != new)
		note(w, (struct kv_change){KV_CHANGE_INSTANCE, .key = key}, "%s: %s -> %s", key,
		     format(old, a), format(new, b));
}

static void live_text(void *arg, const char *key, const char *old, const char *new)
{
	note(arg, (struct kv_change){KV_CHANGE_INSTANCE, .key = key}, "%s: %s -> %s", key, old,
	     new);
}

static const char *flag_text(bool value)
{
	return value ? "true" : "false";
}

static void diff_instance(struct walk *w, const struct kv_config *old, const struct kv_config *new)
{
	char a[KV_VALUE_TEXT], b[KV_VALUE_TEXT];

	instance_text(w, "pin", old->pin, new->pin);
	instance_text(w, "control", old->control, new->control);
	instance_list(w, "interfaces", old->interfaces, old->n_interfaces, new->interfaces,
		      new->n_interfaces, sizeof(*new->interfaces));
	instance_list(w, "session_headers", old->session_headers, old->n_session_headers,
		      new->session_headers, new->n_session_headers, sizeof(*new->session_headers));
	instance_text(w, "user", old->user, new->user);
	instance_text(w, "tenancy.header", old->tenant_header, new->tenant_header);
	instance_count(w, "max_backends", old->max_backends, new->max_backends);
	instance_count(w, "upstreams_per_backend", old->upstreams_per_backend,
		       new->upstreams_per_backend);
	instance_count(w, "max_clients", old->max_clients, new->max_clients);
	instance_count(w, "max_prefixes", old->max_prefixes, new->max_prefixes);
	instance_count(w, "max_sessions", old->max_sessions, new->max_sessions);
	instance_count(w, "trace.requests", old->trace.requests, new->trace.requests);
	live_value(w, "trace.sample", old->trace.sample, new->trace.sample, kv_format_count);
	live_value(w, "timeouts.client_idle", old->timeouts.client_idle_ms,
		   new->timeouts.client_idle_ms, kv_format_duration);
	live_value(w, "timeouts.request", old->timeouts.request_ms, new->timeouts.request_ms,
		   kv_format_duration);
	live_value(w, "timeouts.response", old->timeouts.response_ms, new->timeouts.response_ms,
		   kv_format_duration);
	live_value(w, "timeouts.probe", old->timeouts.probe_ms, new->timeouts.probe_ms,
		   kv_format_duration);
	live_value(w, "timeouts.drain", old->timeouts.drain_ms, new->timeouts.drain_ms,
		   kv_format_duration);
	live_value(w, "timeouts.connect", old->timeouts.connect_ms, new->timeouts.connect_ms,
		   kv_format_duration);
	live_value(w, "limits.body", old->limits.body, new->limits.body, kv_format_bytes);
	if (old->limits.events != new->limits.events)
		instance_text(w, "limits.events", kv_format_bytes(old->limits.events, a),
			      kv_format_bytes(new->limits.events, b));
	live_value(w, "limits.memory", old->limits.memory, new->limits.memory, kv_format_bytes);
	live_value(w, "limits.clients", old->limits.clients, new->limits.clients, kv_format_count);
	live_value(w, "limits.clients_per_address", old->limits.clients_per_address,
		   new->limits.clients_per_address, kv_format_count);
	live_value(w, "limits.memory_per_address", old->limits.memory_per_address,
		   new->limits.memory_per_address, kv_format_bytes);
	if (old->watch != new->watch)
		live_text(w, "watch", flag_text(old->watch), flag_text(new->watch));
	kv_config_diff_follow(old, new, live_text, w);
}

/* ---- services and backends ------------------------------------------------------------ */

static const struct kv_config_backend *same_backend(const struct kv_config_service *service,
						    const struct kv_config_backend *backend)
{
	for (__u32 i = 0; service && i < service->n_backends; i++)
		if (!strcmp(service->backends[i].name, backend->name) &&
		    kv_addr_equal(&service->backends[i].address, &backend->address))
			return &service->backends[i];
	return NULL;
}

static char *format_listen(const struct kv_config_service *s, char buf[LIST_TEXT])
{
	char text[KV_ADDR_TEXT];
	size_t n = 0;

	buf[0] = 0;
	for (__u32 i = 0; i < s->n_listen && n < LIST_TEXT; i++)
		n += snprintf(buf + n, LIST_TEXT - n, "%s%s", n ? "," : "",
			      kv_addr_format(&s->listen[i], text, sizeof(text)));
	return buf;
}

/* now: what is shown of a key that has more to it than is shown. */
static const char *other(const char *was, const char *now)
{
	return strcmp(was, now) ? now : "the same, other values";
}

static void format_events(const struct kv_service_events *e, char buf[LIST_TEXT])
{
	if (!e->on)
		snprintf(buf, LIST_TEXT, "off");
	else if (e->port)
		snprintf(buf, LIST_TEXT, "port %u", e->port);
	else
		snprintf(buf, LIST_TEXT, "%s %s", e->poll ? "poll" : "bind", e->bind);
}

static bool same_listen(const struct kv_config_service *a, const struct kv_config_service *b)
{
	return a->n_listen == b->n_listen &&
	       !memcmp(a->listen, b->listen, a->n_listen * sizeof(*a->listen));
}

static void removed(struct walk *w, const struct kv_config *old, const struct kv_config *new)
{
	char text[KV_ADDR_TEXT];

	for (__u32 i = 0; i < old->n_services; i++) {
		const struct kv_config_service *was = &old->services[i];
		const struct kv_config_service *now = kv_config_service(new, was->name);

		for (__u32 j = 0; j < was->n_backends; j++)
			if (!same_backend(now, &was->backends[j]))
				note(w,
				     (struct kv_change){KV_CHANGE_BACKEND_REMOVED,
							.old_service = was, .new_service = now,
							.old_backend = &was->backends[j]},
				     "backend %s: removed from service %s (%s)",
				     was->backends[j].name, was->name,
				     kv_addr_format(&was->backends[j].address, text, sizeof(text)));
		if (!now)
			note(w, (struct kv_change){KV_CHANGE_SERVICE_REMOVED, .old_service = was},
			     "service %s: removed", was->name);
	}
}

static void added(struct walk *w, const struct kv_config *old, const struct kv_config *new)
{
	char text[KV_ADDR_TEXT], list[LIST_TEXT];

	for (__u32 i = 0; i < new->n_services; i++) {
		const struct kv_config_service *now = &new->services[i];
		const struct kv_config_service *was = kv_config_service(old, now->name);

		if (!was)
			note(w, (struct kv_change){KV_CHANGE_SERVICE_ADDED, .new_service = now},
			     "service %s: added (%s)", now->name, format_listen(now, list));
		for (__u32 j = 0; j < now->n_backends; j++)
			if (!same_backend(was, &now->backends[j]))
				note(w,
				     (struct kv_change){KV_CHANGE_BACKEND_ADDED, .old_service = was,
							.new_service = now,
							.new_backend = &now->backends[j]},
				     "backend %s: added to service %s (%s)", now->backends[j].name,
				     now->name,
				     kv_addr_format(&now->backends[j].address, text, sizeof(text)));
	}
}

static void service_values(struct walk *w, const struct kv_config_service *was,
			   const struct kv_config_service *now)
{
	struct kv_change change = {KV_CHANGE_SERVICE, .old_service = was, .new_service = now};
	char a[LIST_TEXT], b[LIST_TEXT];

	if (!same_listen(was, now)) {
		change.key = "listen";
		note(w, change, "service %.63s: listen %s -> %s", now->name, format_listen(was, a),
		     format_listen(now, b));
	}
	if (was->policy != now->policy) {
		change.key = "policy";
		note(w, change, "service %s: policy %s -> %s", now->name,
		     kv_policy_name(was->policy), kv_policy_name(now->policy));
	}
	if (was->floor != now->floor) {
		change.key = "floor";
		note(w, change, "service %s: floor %u -> %u", now->name, was->floor, now->floor);
	}
	if (was->affinity != now->affinity) {
		change.key = "affinity";
		note(w, change, "service %s: affinity %s -> %s", now->name,
		     kv_affinity_name(was->affinity), kv_affinity_name(now->affinity));
	}
	if (was->body_limit != now->body_limit) {
		change.key = "body_limit";
		note(w, change, "service %s: body_limit %s -> %s", now->name,
		     kv_format_bytes(was->body_limit, a), kv_format_bytes(now->body_limit, b));
	}
	if (was->answer_header != now->answer_header) {
		change.key = "answer_header";
		note(w, change, "service %s: answer_header %s -> %s", now->name,
		     flag_text(was->answer_header), flag_text(now->answer_header));
	}
	if (memcmp(&was->events, &now->events, sizeof(now->events))) {
		change.key = "events";
		format_events(&was->events, a);
		format_events(&now->events, b);
		note(w, change, "service %.63s: events %s -> %s", now->name, a, other(a, b));
	}
	if (memcmp(&was->discover, &now->discover, sizeof(now->discover))) {
		change.key = "discover";
		kv_discover_format(&was->discover, a, sizeof(a));
		kv_discover_format(&now->discover, b, sizeof(b));
		note(w, change, "service %.63s: discover %s -> %s", now->name, a, other(a, b));
	}
}

/* 0: a capacity that is not set. */
static char *format_told(__u64 value, char *buf)
{
	return value ? kv_format_count(value, buf) : strcpy(buf, "as told");
}

static char *format_rate(__u64 value, char *buf)
{
	return value ? kv_format_count(value, buf) : strcpy(buf, "learned");
}

static char *format_origin(__u64 origin, char *buf)
{
	return strcpy(buf, kv_origin_name(origin));
}

static void backend_value(struct walk *w, struct kv_change change, const char *key, __u64 old,
			  __u64 new, char *(*format)(__u64, char *))
{
	char a[KV_VALUE_TEXT], b[KV_VALUE_TEXT];

	change.key = key;
	if (old != new)
		note(w, change, "backend %s: %s %s -> %s", change.new_backend->name, key,
		     format(old, a), format(new, b));
}

static void changed(struct walk *w, const struct kv_config *old, const struct kv_config *new)
{
	for (__u32 i = 0; i < new->n_services; i++) {
		const struct kv_config_service *now = &new->services[i];
		const struct kv_config_service *was = kv_config_service(old, now->name);

		if (!was)
			continue;
		service_values(w, was, now);
		for (__u32 j = 0; j < now->n_backends; j++) {
			struct kv_change change = {
				KV_CHANGE_BACKEND,
				.old_service = was,
				.new_service = now,
				.old_backend = same_backend(was, &now->backends[j]),
				.new_backend = &now->backends[j],
			};

			if (!change.old_backend)
				continue;
			backend_value(w, change, "capacity", change.old_backend->capacity,
				      change.new_backend->capacity, format_told);
			backend_value(w, change, "rate", change.old_backend->rate,
				      change.new_backend->rate, format_rate);
			backend_value(w, change, "events_port", change.old_backend->events_port,
				      change.new_backend->events_port, kv_format_count);
			backend_value(w, change, "replay_port", change.old_backend->replay_port,
				      change.new_backend->replay_port, kv_format_count);
			backend_value(w, change, "from", change.old_backend->origin,
				      change.new_backend->origin, format_origin);
		}
	}
}

int kv_config_diff(const struct kv_config *old, const struct kv_config *new, struct kv_diff *ret)
{
	struct walk w = {0};

	removed(&w, old, new);
	added(&w, old, new);
	diff_instance(&w, old, new);
	changed(&w, old, new);
	if (w.err) {
		kv_diff_free(&w.diff);
		return w.err;
	}
	*ret = w.diff;
	return 0;
}

void kv_diff_free(struct kv_diff *diff)
{
	free(diff->changes);
	*diff = (struct kv_diff){0};
}
