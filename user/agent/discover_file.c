// SPDX-License-Identifier: BSD-2-Clause
/*
 * The configuration's own file. Nobody sits there to try again where a change was refused for
 * something that passes, as a backend that still ends its requests: this does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/apply.h"
#include "agent/discover_file.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "engines/file_watch.h"

#define ROOM_AGAIN (2 * SECOND)
#define AGAIN (60 * SECOND) /* each try may be a line of the log */

struct watched {
	struct file_watch *watch;
	char *text; /* not in force for the time being; NULL: none */
	size_t len;
	__u64 again_ns;
	char told[KV_CONFIG_ERROR_LEN];
};

static void forget(struct watched *w)
{
	free(w->text);
	w->text = NULL;
}

/* text: a copy, which is ours: whose it was may be gone when it has been applied. */
static void apply_text(struct agent *agent, char *text, size_t len)
{
	_cleanup_json_mut_ yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	_cleanup_free_ char *own = text;
	char err[KV_CONFIG_ERROR_LEN];
	struct watched *w;
	int ret;

	if (!text)
		return;
	ret = apply_config(agent, agent->file, text, len, doc, yyjson_mut_obj(doc), err,
			   sizeof(err));
	w = agent->watched;
	if (!ret || !w)
		return;
	if (strcmp(err, w->told))
		kv_warn("watch: %s; what is in force stays", err);
	strcpy(w->told, err);
	if (ret == -EINVAL)
		return;
	forget(w);
	w->text = kv_take(own);
	w->len = len;
	w->again_ns = kv_now_ns() + (ret == -ENOSPC ? ROOM_AGAIN : AGAIN);
}

static void on_changed(void *arg, const char *text, size_t len)
{
	struct agent *agent = arg;
	char *copy;

	forget(agent->watched);
	*agent->watched->told = 0;
	if (agent->draining)
		return;
	kv_info("watch: %s is another one", agent->file);
	copy = malloc(len + 1);
	if (copy)
		memcpy(copy, text, len + 1);
	apply_text(agent, copy, len);
	discover_file_note(agent);
}

void discover_file_note(struct agent *agent)
{
	const struct watched *w = agent->watched;

	/* One that is to be tried again is so by the next agent, too. */
	keeper_tell(&agent->keeper, agent->config,
		    w && w->watch && !w->text ? file_watch_digest(w->watch) : 0);
}

void discover_file_second(struct agent *agent, __u64 now_ns)
{
	struct watched *w = agent->watched;

	if (!w || !w->text || now_ns < w->again_ns || agent->draining)
		return;
	apply_text(agent, kv_take(w->text), w->len);
	discover_file_note(agent);
}

void discover_file_close(struct agent *agent)
{
	if (!agent->watched)
		return;
	file_watch_free(agent->watched->watch);
	forget(agent->watched);
	free(agent->watched);
	agent->watched = NULL;
}

static const char *trouble(const struct agent *agent, int err)
{
	if (!agent->file)
		return "kvsteerd was started without -c FILE: there is none to be watched";
	return err == -EACCES
		       ? "Permission denied: the agent's user has to be able to read the file "
			 "and its directory"
		       : strerror(-err);
}

static int open_watch(struct agent *agent, struct file_watch **ret)
{
	return agent->file ? file_watch_new(agent->base, agent->file, on_changed, agent, ret)
			   : -ENOENT;
}

void discover_file_apply(struct agent *agent)
{
	int err;

	if (!agent->config->watch) {
		discover_file_close(agent);
		return;
	}
	if (agent->watched) {
		forget(agent->watched);
		return;
	}
	agent->watched = calloc(1, sizeof(*agent->watched));
	err = agent->watched ? open_watch(agent, &agent->watched->watch) : -ENOMEM;
	if (!err)
		return;
	kv_err("watch: %s: %s; changes of it are not seen", agent->file ?: "no file",
	       trouble(agent, err));
	free(agent->watched);
	agent->watched = NULL;
}

void discover_file_open(struct agent *agent)
{
	discover_file_apply(agent);
	/* What has been written while nobody looked. */
	if (agent->watched && agent->keeper.why == KEEPER_CRASH)
		file_watch_known(agent->watched->watch, agent->keeper.file);
	discover_file_note(agent);
}

int discover_file_check(struct agent *agent, const struct kv_config *to, char *err, size_t errlen)
{
	struct file_watch *watch = NULL;
	int ret = to->watch && !agent->config->watch ? open_watch(agent, &watch) : 0;

	file_watch_free(watch);
	if (ret)
		apply_say(err, errlen, "watch: %s: %s; nothing has been changed",
			  agent->file ?: "no file", trouble(agent, ret));
	return ret;
}
