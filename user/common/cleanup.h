/* SPDX-License-Identifier: BSD-2-Clause */
/* Things that end with their scope. */
#ifndef KVSTEER_CLEANUP_H
#define KVSTEER_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <yyjson.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

static inline void kv_cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void kv_cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void kv_cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void kv_cleanup_closedir(DIR **d)
{
	if (*d)
		closedir(*d);
}

static inline void kv_cleanup_json(yyjson_doc **doc)
{
	yyjson_doc_free(*doc);
}

static inline void kv_cleanup_json_mut(yyjson_mut_doc **doc)
{
	yyjson_mut_doc_free(*doc);
}

#define _cleanup_free_ _cleanup_(kv_cleanup_free)
#define _cleanup_close_ _cleanup_(kv_cleanup_close)
#define _cleanup_fclose_ _cleanup_(kv_cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(kv_cleanup_closedir)
#define _cleanup_json_ _cleanup_(kv_cleanup_json)
#define _cleanup_json_mut_ _cleanup_(kv_cleanup_json_mut)

/* Hands a pointer over to somebody else: the cleanup then has nothing to do. */
#define kv_take(p)                                                                                 \
	({                                                                                         \
		typeof(p) _taken = (p);                                                            \
		(p) = NULL;                                                                        \
		_taken;                                                                            \
	})

#endif
