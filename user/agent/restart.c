// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/handover.h"
#include "agent/manager.h"
#include "agent/restart.h"
#include "agent/restart_parts.h"
#include "common/log.h"

#define ANSWER_TIME (50 * MS)

struct restart {
	enum { RESTART_NONE, RESTART_CHECK, RESTART_WAIT, RESTART_STORE, RESTART_ANEW } state;
	char program[KEEPER_PATH];
	struct restart_check check;
	restart_fn fn;
	void *context;
	__u64 from_ns; /* the answer is on its way */
	__u64 until_ns;
};

static void answer(struct agent *agent, const char *err)
{
	struct restart *r = agent->restart;
	restart_fn fn = r->fn;

	r->fn = NULL;
	if (fn)
		fn(r->context, err, r->state == RESTART_ANEW);
	if (err)
		kv_warn("restart: %s", err);
}

static void wait_begin(struct agent *agent)
{
	struct restart *r = agent->restart;

	r->state = RESTART_WAIT;
	r->from_ns = kv_now_ns() + ANSWER_TIME;
	r->until_ns = r->from_ns + agent->config->timeouts.drain_ms * MS;
	kv_info("restart: %s takes over when what is in hand has ended", r->program);
	sd_notify(0, "STATUS=restarting");
}

/* Maps stay pinned, and programs attached: the kernel serves until the next agent is there. */
static void store(struct agent *agent)
{
	struct handover_sockets sockets = {};
	int err = handover_sockets_find(&sockets);

	keeper_ending(&agent->keeper);
	if (!err)
		err = manager_store(sockets.fd, sockets.n);
	if (err)
		kv_err("the service manager does not take the sockets: %s: connections end",
		       strerror(-err));
	else
		kv_info("the service manager has %zu sockets", sockets.n);
	free(sockets.fd);
}

static void wait_tick(struct agent *agent, __u64 now_ns)
{
	struct restart *r = agent->restart;
	__u32 n = restart_in_hand(agent, now_ns);

	if (now_ns < (n ? r->until_ns : r->from_ns))
		return;
	restart_say_late(agent);
	if (r->state == RESTART_STORE)
		store(agent);
	else
		keeper_restart(&agent->keeper, r->program);
	_exit(EXIT_SUCCESS);
}

void restart_by_manager(struct agent *agent)
{
	if (!agent->restart)
		agent->restart = calloc(1, sizeof(*agent->restart));
	if (!agent->restart)
		return;
	agent->restart->state = RESTART_STORE;
	agent->restart->from_ns = 0;
	agent->restart->until_ns = kv_now_ns() + agent->config->timeouts.drain_ms * MS;
	kv_info("restart: the service manager gets the sockets when what is in hand has ended");
	clock_hurry(agent);
}

/* ---- asking -------------------------------------------------------------------------- */

static void check_passed(struct agent *agent, bool fits)
{
	struct restart *r = agent->restart;

	if (fits) {
		wait_begin(agent);
	} else {
		r->state = RESTART_ANEW;
		kv_info("restart: %s makes its maps anew: all requests end first, new connections "
			"wait",
			r->program);
	}
	answer(agent, NULL);
	if (r->state == RESTART_ANEW)
		agent_drain(agent);
	clock_hurry(agent);
}

static void check_failed(struct agent *agent)
{
	struct restart *r = agent->restart;
	char err[RESTART_TEXT + KEEPER_PATH + 4], *end;

	end = strpbrk(r->check.text, "\r\n");
	if (end)
		*end = 0;
	snprintf(err, sizeof(err), "%s: %s", r->program,
		 *r->check.text ? r->check.text : "does not know --check-takeover");
	r->state = RESTART_NONE;
	answer(agent, err);
}

void restart_checked(struct agent *agent, enum restart_verdict verdict)
{
	if (agent->draining)
		agent->restart->state = RESTART_NONE; /* a signal was first */
	else if (verdict == RESTART_REFUSED)
		check_failed(agent);
	else
		check_passed(agent, verdict == RESTART_FITS);
}

int restart_begin(struct agent *agent, const char *program, restart_fn fn, void *context, char *err,
		  size_t errlen)
{
	struct restart *r = agent->restart;
	int ret;

	if (!r)
		r = agent->restart = calloc(1, sizeof(*r));
	if (!r) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	if (agent->draining || r->state != RESTART_NONE) {
		snprintf(err, errlen, "the agent is about to end already");
		return -EBUSY;
	}
	if (!keeper_lives(&agent->keeper)) {
		snprintf(err, errlen, "the keepers were killed: nobody can start the next agent");
		return -ECHILD;
	}
	if (program && agent->keeper.path_fixed) {
		snprintf(err, errlen,
			 "%s: with user set, only %s is started: install it there first", program,
			 agent->keeper.path);
		return -EPERM;
	}
	if (program && *program != '/') {
		snprintf(err, errlen, "%s: expected an absolute path", program);
		return -EINVAL;
	}
	snprintf(r->program, sizeof(r->program), "%s", program ? program : agent->keeper.path);
	ret = restart_check_begin(agent, &r->check, r->program);
	if (ret) {
		snprintf(err, errlen, "%s: cannot be executed: %s", r->program, strerror(-ret));
		return ret;
	}
	r->state = RESTART_CHECK;
	r->fn = fn;
	r->context = context;
	return 0;
}

void restart_cancel(struct agent *agent)
{
	if (!agent->restart || agent->restart->state == RESTART_CHECK)
		return;
	if (agent->restart->state != RESTART_NONE)
		kv_info("restart: given up");
	agent->restart->state = RESTART_NONE;
}

/* ---- hooks --------------------------------------------------------------------------- */

void restart_forget(struct agent *agent, const void *context)
{
	if (agent->restart && agent->restart->context == context)
		agent->restart->fn = NULL;
}

const char *restart_program(const struct agent *agent)
{
	return agent->restart->program;
}

bool restart_waits(const struct agent *agent)
{
	return agent->restart &&
	       (agent->restart->state == RESTART_WAIT || agent->restart->state == RESTART_STORE);
}

bool restart_stores(const struct agent *agent)
{
	return agent->restart && agent->restart->state == RESTART_STORE;
}

bool restart_anew(const struct agent *agent)
{
	return agent->restart && agent->restart->state == RESTART_ANEW;
}

void restart_tick(struct agent *agent, __u64 now_ns)
{
	if (!restart_waits(agent))
		return;
	wait_tick(agent, now_ns);
	clock_hurry(agent);
}

void restart_exit(struct agent *agent)
{
	if (!restart_anew(agent))
		return;
	keeper_restart(&agent->keeper, agent->restart->program);
	_exit(EXIT_SUCCESS);
}

void restart_close(struct agent *agent)
{
	free(agent->restart);
	agent->restart = NULL;
}
