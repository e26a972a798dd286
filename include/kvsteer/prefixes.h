/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of prefixes: who holds the KV cache of a prompt up to a rung, by chain hash. Sets of
 * KV_WAYS entries in an array, so its memory is what it is from the start; a full set gives away
 * the entry that was told or learned longest ago.
 *
 * Readers take no lock, and an entry may be given to another prefix under their eyes. So every word
 * in an entry is bound to its prefix: it is stored XORed with the hash, an empty place as the hash
 * itself. What another prefix's word is taken for then is no live holder (another epoch: 1 in 4096;
 * another age: fewer still), and whoever looked at an entry and then writes into it by compare and
 * swap fails, for no word there is what it was, empty places included. A look-up also looks at the
 * hash again behind its copy. At worst it sees fewer holders.
 *
 * Who enters a prefix has its set to himself (busy), so no hash is there twice. It is one of a few
 * instructions' length; who meets it tries some times more and gives up then: the next request
 * will enter it.
 */
#ifndef KVSTEER_PREFIXES_H
#define KVSTEER_PREFIXES_H

#include <asm-generic/errno-base.h>

#include "shared.h"

#define KV_PREFIX_TICK_SHIFT 20	   /* of ns: age is known to 1 ms, and wraps after 52 days */
#define KV_PREFIX_AHEAD (1u << 16) /* an entry may be newer than our reading of the clock */
#define KV_PREFIX_TRIES 8

/* What stands for a hash in the table: never 0, which marks what is free. */
KV_INLINE __u64 kv_prefix_name(__u64 hash)
{
	return hash | 1ull << 63;
}

/* A holder's word as it is stored for a prefix, and back. */
KV_INLINE __u64 kv_prefix_bind(__u64 word, __u64 hash)
{
	return word ^ kv_prefix_name(hash);
}

KV_INLINE __u32 kv_prefix_sets(__u32 max_prefixes)
{
	return (max_prefixes + KV_WAYS - 1) / KV_WAYS;
}

/*
 * Which set, of so many. Hashes come from clients. Multiplied by an odd number that they do not
 * know, any two of them are in one set with a chance of at most 2 in the number of sets, and all
 * that share one can only be found by filling the table (Dietzfelbinger's multiplicative hashing:
 * the high bits count).
 */
KV_INLINE __u32 kv_prefix_set_of(__u64 hash, __u64 key, __u32 sets)
{
	return (kv_prefix_name(hash) * (key | 1) >> 32) * sets >> 32;
}

KV_INLINE __u32 kv_prefix_tick(__u64 now)
{
	return now >> KV_PREFIX_TICK_SHIFT;
}

/* Where it is, unless that was taken when it came. The CPU guesses so, and fetches the entry
 * without waiting for the hashes. */
KV_INLINE __u32 kv_prefix_home(__u64 hash)
{
	return hash >> 60 & (KV_WAYS - 1);
}

/* The way of a prefix in its set, KV_WAYS: it is not there. */
KV_INLINE __u32 kv_prefix_way(const struct kv_prefix_set *set, __u64 hash)
{
	__u32 home = kv_prefix_home(hash);

	hash = kv_prefix_name(hash);
	if (kv_read_once(set->hash[kv_index(home, KV_WAYS)]) == hash)
		return home;
	return kv_find(set->hash, hash);
}

KV_INLINE struct kv_prefix *kv_prefix_find(struct kv_prefix_set *set, __u64 hash)
{
	__u32 way = set ? kv_prefix_way(set, hash) : KV_WAYS;

	return way < KV_WAYS ? &set->entry[kv_index(way, KV_WAYS)] : NULL;
}

/* One after the other, written as soon as read: 8 at a time would not fit the registers, and BPF's
 * stack is small. */
KV_INLINE void kv_prefix_copy(__u64 *to, const struct kv_prefix *p, __u64 hash)
{
	__u64 empty = kv_prefix_name(hash);

	KV_UNROLL
	for (__u32 j = 0; j < KV_HOLDERS; j++)
		kv_write_once(to[j], kv_read_once(p->holder[j]) ^ empty);
}

/* Asks memory for what a look-up of this prefix will read, and what entering it will write. */
KV_INLINE void kv_prefix_fetch(const struct kv_prefix_set *set, __u64 hash)
{
	kv_fetch(set->hash[0]);
	kv_fetch(set->touched[0]);
	kv_fetch(set->entry[kv_index(kv_prefix_home(hash), KV_WAYS)].holder[0]);
}

/* Its holders, 0: an empty place. False: the prefix is not known. */
KV_INLINE bool kv_prefix_read(__u64 *to, const struct kv_prefix_set *set, __u64 hash)
{
	__u32 way = set ? kv_prefix_way(set, hash) : KV_WAYS;

	if (way >= KV_WAYS)
		return false;
	way = kv_index(way, KV_WAYS);
	kv_prefix_copy(to, &set->entry[way], hash);
	return kv_read_once(set->hash[way]) == kv_prefix_name(hash);
}

/* Where a backend's word is in a prefix's entry, KV_HOLDERS: nowhere. */
KV_INLINE __u32 kv_prefix_place(struct kv_prefix_set *set, __u64 hash, __u32 backend,
				__u64 *ret_word)
{
	const struct kv_prefix *p = kv_prefix_find(set, hash);
	__u64 empty = kv_prefix_name(hash), word;

	if (!p)
		return KV_HOLDERS;
	KV_UNROLL
	for (__u32 j = 0; j < KV_HOLDERS; j++) {
		word = kv_read_once(p->holder[j]) ^ empty;
		if (word && kv_holder_backend(word) == backend) {
			*ret_word = word;
			return j;
		}
	}
	return KV_HOLDERS;
}

/* The entry to write a holder into: it is not the oldest of its set then. */
KV_INLINE struct kv_prefix *kv_prefix_touch(struct kv_prefix_set *set, __u64 hash, __u64 now)
{
	__u32 way = set ? kv_prefix_way(set, hash) : KV_WAYS, tick = kv_prefix_tick(now);

	if (way >= KV_WAYS)
		return NULL;
	way = kv_index(way, KV_WAYS);
	/* What all use is not written to by all. */
	if (kv_read_once(set->touched[way]) != tick)
		kv_write_once(set->touched[way], tick);
	return &set->entry[way];
}

/* Entering something takes another CPU about as long as its cache line takes to come here. */
KV_INLINE bool kv_prefix_seize(struct kv_prefix_set *set)
{
	KV_UNROLL
	for (__u32 i = 0; i < KV_PREFIX_TRIES; i++)
		if (!kv_atomic_xchg(&set->busy, 1))
			return true;
	return false;
}

#define KV_ROOM_FREE (1ull << 61)

/* The way for a new prefix: home or another free one, else the oldest; KV_WAYS if it is there. */
KV_INLINE __u32 kv_prefix_room(const struct kv_prefix_set *set, __u64 hash, __u32 tick)
{
	__u32 home = kv_index(kv_prefix_home(hash), KV_WAYS);
	__u64 best = 0, worth;

	if (kv_prefix_way(set, hash) < KV_WAYS)
		return KV_WAYS;
	if (!kv_read_once(set->hash[home]))
		return home;
	KV_UNROLL
	for (__u32 i = 0; i < KV_WAYS; i++) {
		__u32 age = tick + KV_PREFIX_AHEAD - kv_read_once(set->touched[i]);

		/* Age and way in one word, and the larger taken without a jump, too. */
		worth = (__u64)age * KV_WAYS | i;
		worth += kv_same(kv_read_once(set->hash[i]), 0ull) * KV_ROOM_FREE;
		best += (worth - best) * kv_below(best, worth);
	}
	return best & (KV_WAYS - 1);
}

/* Enters a prefix with its first holder. 0; 1: another one had to go for it; -EEXIST; -EBUSY:
 * another CPU was at it for too long. Not inline, for its stack is not its caller's then. */
static __noinline __attribute__((unused)) int kv_prefix_insert(struct kv_prefix_set *set,
							       __u64 hash, __u64 holder, __u64 now)
{
	__u64 name = kv_prefix_name(hash), was;
	__u32 tick = kv_prefix_tick(now), way;

	if (!kv_prefix_seize(set))
		return -EBUSY;
	way = kv_prefix_room(set, hash, tick);
	if (way >= KV_WAYS) {
		kv_atomic_xchg(&set->busy, 0);
		return -EEXIST;
	}
	way = kv_index(way, KV_WAYS);
	was = kv_atomic_xchg(&set->hash[way], 0);
	KV_UNROLL
	for (__u32 j = 0; j < KV_HOLDERS; j++)
		kv_write_once(set->entry[way].holder[j], j ? name : holder ^ name);
	kv_write_once(set->touched[way], tick);
	kv_atomic_xchg(&set->hash[way], name);
	kv_atomic_xchg(&set->busy, 0);
	return was != 0;
}

/* Room for others: nobody holds it any more. Who enters a holder in this very moment loses it. */
KV_INLINE void kv_prefix_free(struct kv_prefix_set *set, __u64 hash)
{
	__u32 way = set ? kv_prefix_way(set, hash) : KV_WAYS;

	if (way < KV_WAYS)
		kv_atomic_cas(&set->hash[kv_index(way, KV_WAYS)], kv_prefix_name(hash), 0);
}

#endif /* KVSTEER_PREFIXES_H */
