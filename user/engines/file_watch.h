/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that is written anew now and then, by whatever means: editors, configuration managers,
 * mounted ConfigMaps that switch a symbolic link. What counts is its text.
 */
#ifndef ENGINES_FILE_WATCH_H
#define ENGINES_FILE_WATCH_H

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_WATCH_MAX (4u << 20)
#define FILE_WATCH_SETTLE_MS 100 /* twice: the text must have stayed the same */

struct file_watch;

/* changed: the text is another one than at the last call, or at the start; NUL behind it. A file
 * that cannot be read is told once in one line, and changes nothing. w may be freed
 * within. 0 or -errno. */
int file_watch_new(struct event_base *base, const char *path,
		   void (*changed)(void *arg, const char *text, size_t len), void *arg,
		   struct file_watch **ret);
/* Of the text in force, or last seen: never 0. */
uint64_t file_watch_digest(const struct file_watch *w);
/* What was known of it before the start: if that is another text, the one there is a change. */
void file_watch_known(struct file_watch *w, uint64_t digest);
void file_watch_free(struct file_watch *w);

#endif
