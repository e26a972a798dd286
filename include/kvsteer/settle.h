/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Settling: what becomes of a dispatched request's charges and of what was learned from it, once
 * it has been answered, or has not. Included by steer.h.
 */
#ifndef KVSTEER_SETTLE_H
#define KVSTEER_SETTLE_H

#include "load.h"

/* Turns this dispatch's tentative entries (of one rung, or its session's) into confirmed ones, or
 * takes them back. A sibling of the same burst may have settled them before. empty: what words are
 * stored XORed with, 0 for a session's. Returns what is there after it. */
KV_INLINE __u64 kv_settle_holder(__u64 *holder, __u64 empty, __u32 backend, bool confirm)
{
	__u64 was = kv_read_once(*holder), h = was ^ empty, to;

	if ((h & KV_HOLDER_TENTATIVE_OF(KV_MAX_BACKENDS - 1)) != KV_HOLDER_TENTATIVE_OF(backend))
		return h;
	to = confirm ? h & ~KV_HOLDER_TENTATIVE : 0;
	if (kv_atomic_cas(holder, was, to ^ empty) != was)
		return h;
	if (!confirm)
		kv_world_count(KV_CNT_unlearned);
	return to;
}

KV_INLINE long kv_settle_rung(__u32 i, struct kv_dispatch *d, bool confirm)
{
	__u64 hash = d->query.rungs[kv_index(i, KV_MAX_RUNGS)].hash, left = 0, h;
	__u64 empty = kv_prefix_name(hash);
	struct kv_prefix_set *set = kv_world_prefix_set(hash);
	struct kv_prefix *p = kv_prefix_find(set, hash);

	if (!p)
		return 0;
	for (__u32 j = 0; j < KV_HOLDERS; j++) {
		h = kv_settle_holder(&p->holder[j], empty, d->backend, confirm);
		if (confirm && h && kv_holder_backend(h) == d->backend)
			return 0; /* it has one place only */
		left |= h;
	}
	if (!confirm && !left)
		kv_prefix_free(set, hash);
	return 0;
}

static long kv_confirm_step(__u32 i, void *ctx)
{
	return kv_settle_rung(i, *(struct kv_dispatch **)ctx, true);
}

static long kv_unlearn_step(__u32 i, void *ctx)
{
	return kv_settle_rung(i, *(struct kv_dispatch **)ctx, false);
}

KV_INLINE void kv_settle(struct kv_dispatch *d, bool confirm)
{
	struct kv_backend *b = kv_world_backend(d->backend);
	struct kv_session *s;
	__u32 tokens;

	if (!b)
		return;
	tokens = kv_atomic_xchg(&d->charged_tokens, 0);
	if (tokens)
		kv_queue_remove(b, kv_world_ns(), tokens);
	if (!kv_atomic_xchg(&d->unconfirmed, 0))
		return;
	/* Only now: until it is answered its engine may not have looked for it yet. */
	if (confirm && d->believed)
		kv_atomic_add(&b->predicted_tokens, d->believed);
	kv_loop(d->query.n_rungs, confirm ? kv_confirm_step : kv_unlearn_step, &d);
	s = d->query.session ? kv_world_session(d->query.session) : NULL;
	if (s)
		kv_settle_holder(&s->holder, 0, d->backend, confirm);
}

KV_INLINE void kv_settle_request(struct kv_dispatch *d)
{
	struct kv_backend *b = kv_world_backend(d->backend);

	if (b && kv_atomic_xchg(&d->charged_request, 0))
		kv_atomic_add(&b->inflight_requests, -1ull);
}

/*
 * What this request's prefill has taken: since the stream before it began, or, if that was earlier,
 * since it was dispatched. So the times of a backend that is never idle lie side by side, one
 * beginning where another ends, and their sum over its tokens is its rate, in which order and in
 * how large batches it may compute them. Answers that come whole say nothing: they were generated
 * before.
 */
KV_ENTRY void kv_dispatch_timed(struct kv_dispatch *d)
{
	struct kv_backend *b = kv_world_backend(d->backend);
	__u64 tokens = kv_read_once(d->charged_tokens), now = kv_world_ns(), since;

	if (!b || !tokens)
		return;
	since = kv_atomic_xchg(&b->prefill_at, now);
	if (since < d->at_ns)
		since = d->at_ns;
	kv_atomic_add(&b->prefill_tokens, tokens);
	if (now > since) /* else another CPU's is a little younger */
		kv_atomic_add(&b->prefill_ns, now - since);
}

KV_ENTRY void kv_dispatch_answered(struct kv_dispatch *d)
{
	kv_settle(d, true);
}

KV_ENTRY void kv_dispatch_refused(struct kv_dispatch *d)
{
	kv_settle(d, false);
}

KV_ENTRY void kv_dispatch_finished(struct kv_dispatch *d)
{
	kv_settle(d, true);
	kv_settle_request(d);
}

KV_ENTRY void kv_dispatch_failed(struct kv_dispatch *d)
{
	kv_settle(d, false);
	kv_settle_request(d);
}

#endif /* KVSTEER_SETTLE_H */
