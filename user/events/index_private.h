/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the index. */
#ifndef KVSTEER_EVENTS_INDEX_PRIVATE_H
#define KVSTEER_EVENTS_INDEX_PRIVATE_H

#include <sys/queue.h>

#include "events/index.h"
#include "events/store.h"

/* A store whose parent is not known, with a copy of what it says. Its blocks have entries
 * meanwhile, so removals find them. */
struct orphan {
	TAILQ_ENTRY(orphan) link; /* of its engine, oldest first; or of those to be adopted */
	LIST_ENTRY(orphan) wait;  /* for that parent */
	uint64_t parent;
	int id;
	size_t bytes;
	struct kv_index_run run;
	uint64_t data[]; /* hashes, extras, tokens */
};

TAILQ_HEAD(orphans, orphan);
LIST_HEAD(waiting, orphan);

struct engine {
	bool used, complete, wholesale;
	uint16_t gen;
	uint32_t backend, rank;
	uint32_t block, block_given;
	uint32_t oldest, newest, n, n_doomed;
	uint32_t retell;		    /* entry that is told again next, or KV_NO_ENTRY */
	uint64_t full_groups, other_groups; /* of cache groups 0 … 63 */
	struct orphans orphans;
	size_t orphan_bytes;
	bool lora_is_model;
	char *model;
	struct kv_index_stats stats;
};

#define WAIT_BUCKETS 4096
#define DEPTH_MAX (1u << 30) /* tokens */

struct kv_index {
	struct kv_store store;
	struct kv_index_limits limits;
	const struct kv_index_sink *sink;
	void *ctx;
	struct engine **engines; /* by id, KV_INDEX_ENGINES */
	int n_ids, n_used;
	uint32_t doomed, doomed_end; /* linked by `newer` */
	struct orphans ready;
	int retelling; /* engines that are */
	size_t orphan_bytes;
	struct waiting waiting[WAIT_BUCKETS];
};

/* index_entry.c */
struct kv_entry *index_find(const struct kv_index *ix, int id, uint64_t hash);
/* New and linked by its hash, an orphan as yet; or NULL: the cap. */
struct kv_entry *index_insert(struct kv_index *ix, int id, uint64_t hash);
void index_drop(struct kv_index *ix, struct kv_entry *e);
/* Its key and depth are set: told from now on, an orphan no more. False: the key has too many. */
bool index_reveal(struct kv_index *ix, struct kv_entry *e);
/* One reference more or less; false: there is none to take. */
void index_ref(struct kv_index *ix, struct kv_entry *e, uint8_t tier);
bool index_unref(struct kv_index *ix, struct kv_entry *e, uint8_t tier);
/* Frees dead entries; how many. */
uint32_t index_reap(struct kv_index *ix, uint32_t n);
/* All entries of an engine are dead. */
void index_doom(struct kv_index *ix, int id);
void index_incomplete(struct kv_index *ix, int id);
/* Tells some of what is to be told again; how many entries were looked at. */
uint32_t index_retell(struct kv_index *ix, uint32_t n);

/* index_run.c */
/* Where a run begins: behind that parent. False: it cannot be told. */
bool index_run_behind(struct kv_index *ix, int id, struct kv_index_run *r,
		      const struct kv_entry *p);
/* Some blocks; how many. adopting: their entries are there as orphans, or have been removed. */
uint32_t index_run_blocks(struct kv_index *ix, int id, struct kv_index_run *r, bool adopting);
/* Only its entry, until the parent comes. */
void index_run_orphan(struct kv_index *ix, int id, struct kv_index_run *r);

/* index_orphan.c */
/* False: there is no room for it. */
bool orphan_keep(struct kv_index *ix, int id, const struct kv_index_run *r, uint64_t parent);
/* Those who waited for that entry, which now has a key or is a page. */
void orphan_wake(struct kv_index *ix, int id, const struct kv_entry *e);
uint32_t orphan_adopt(struct kv_index *ix, uint32_t blocks);
void orphan_forget(struct kv_index *ix, int id);

#endif
