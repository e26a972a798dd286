// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent/client.h"
#include "agent/clock.h"
#include "agent/entry.h"
#include "agent/handover.h"
#include "agent/manager.h"
#include "agent/relay.h"
#include "agent/restart.h"
#include "common/log.h"

#define CHECK_TEXT 1024
#define ANSWER_TIME (50 * MS)
#define STALLED_TIME (5 * SECOND)
#define LATE_LINES 8 /* of requests that did not end in time */
#define CHECK_WORD "takeover:"

struct restart {
	enum { RESTART_NONE, RESTART_CHECK, RESTART_WAIT, RESTART_STORE, RESTART_ANEW } state;
	char program[KEEPER_PATH];
	pid_t check;
	struct event output;
	char text[CHECK_TEXT];
	size_t len;
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

/* ---- what is in our hands ------------------------------------------------------------ */

/* Its client may have vanished (a RST that is lost is not sent again). All others that need the
 * agent are waiting meanwhile. */
static bool stalled(const struct client *c, __u64 now_ns)
{
	return c->phase == CLIENT_READING && c->in.len && !c->starving &&
	       clock_since(c->last_ns, now_ns) > STALLED_TIME;
}

static bool in_hand(const struct client *c)
{
	switch (c->phase) {
	case CLIENT_READING:
		return c->in.len > 0;
	case CLIENT_HASHING:
	case CLIENT_WAITING:
	case CLIENT_ANSWERING:
		return true;
	case CLIENT_RELAYING:
		return relay_is_mine(c);
	case CLIENT_IDLE:
		return c->died;
	default:
		return false;
	}
}

/* A request of which nothing has come yet is nobody's. */
static void let_go(struct client *c)
{
	if (c->phase != CLIENT_READING || c->in.len ||
	    entry_set_home(&c->agent->dp, &c->request->entry))
		return;
	client_drop_request(c, false);
	client_watch(c, false);
}

static const char *where(const struct client *c)
{
	switch (c->phase) {
	case CLIENT_READING:
		return "it has not come whole";
	case CLIENT_HASHING:
		return "its prompt is being hashed";
	case CLIENT_WAITING:
		return "it waits for a connection to a backend";
	case CLIENT_ANSWERING:
		return "its client does not take the answer";
	case CLIENT_RELAYING:
		return !c->request->answered ? "its backend has not answered"
		       : c->out.len	     ? "its client does not take the answer"
					     : "its answer is not whole";
	default:
		return "the agent before had it";
	}
}

static void say_late(const struct client *c)
{
	struct kv_addr address = {.port = c->key.peer_port};
	char text[KV_ADDR_TEXT];

	memcpy(address.addr, c->key.peer, sizeof(address.addr));
	kv_info("restart: request of %s: %s", kv_addr_format(&address, text, sizeof(text)),
		where(c));
}

static void say_all_late(const struct agent *agent)
{
	const struct client *c;
	__u32 n = 0;

	TAILQ_FOREACH (c, &agent->clients, link)
		if (in_hand(c) && n++ < LATE_LINES)
			say_late(c);
	if (n)
		kv_warn("restart: %u requests in hand are not waited for any longer", n);
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
	struct client *c;
	__u32 n = 0;

	TAILQ_FOREACH (c, &agent->clients, link) {
		let_go(c);
		n += in_hand(c) && !stalled(c, now_ns);
	}
	if (now_ns < (n ? r->until_ns : r->from_ns))
		return;
	say_all_late(agent);
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

static void print_sizes(char *text, size_t size, const struct kv_config *config)
{
	snprintf(text, size, CHECK_WORD " schema %d sizes %u %u %u %u %u", KV_SCHEMA,
		 config->upstreams_per_backend, config->max_backends, config->max_clients,
		 config->max_prefixes, config->max_sessions);
}

void restart_print_check(const struct kv_config *config)
{
	char line[CHECK_TEXT];

	print_sizes(line, sizeof(line), config);
	puts(line);
}

static void check_passed(struct agent *agent)
{
	struct restart *r = agent->restart;
	const char *found = strstr(r->text, CHECK_WORD);
	char own[CHECK_TEXT];

	print_sizes(own, sizeof(own), agent->config);
	if (!strncmp(found, own, strlen(own)) && found[strlen(own)] == '\n') {
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
	char err[CHECK_TEXT + KEEPER_PATH + 4], *end;

	end = strpbrk(r->text, "\r\n");
	if (end)
		*end = 0;
	snprintf(err, sizeof(err), "%s: %s", r->program,
		 *r->text ? r->text : "does not know --check-takeover");
	r->state = RESTART_NONE;
	answer(agent, err);
}

static void on_output(evutil_socket_t fd, short what, void *arg)
{
	struct agent *agent = arg;
	struct restart *r = agent->restart;
	char more[CHECK_TEXT];
	ssize_t n = read(fd, more, sizeof(more));
	size_t room = sizeof(r->text) - 1 - r->len;
	int status = 0;

	(void)what;
	if (n > 0) {
		size_t take = (size_t)n < room ? (size_t)n : room;

		memcpy(r->text + r->len, more, take);
		r->len += take;
		return;
	}
	event_del(&r->output);
	close(fd);
	r->text[r->len] = 0;
	/* It has closed its output: it is ending. */
	while (waitpid(r->check, &status, 0) < 0 && errno == EINTR)
		;
	if (agent->draining)
		r->state = RESTART_NONE; /* a signal was first */
	else if (WIFEXITED(status) && !WEXITSTATUS(status) && strstr(r->text, CHECK_WORD))
		check_passed(agent);
	else
		check_failed(agent);
}

/* Our own arguments, and one more. */
static int check_spawn(struct agent *agent, int out)
{
	static char option[] = "--check-takeover";
	struct restart *r = agent->restart;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	char **argv;
	size_t n = 0;
	int err;

	while (agent->keeper.argv[n])
		n++;
	argv = calloc(n + 2, sizeof(*argv));
	if (!argv)
		return -ENOMEM;
	memcpy(argv, agent->keeper.argv, n * sizeof(*argv));
	argv[n] = option;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	posix_spawnattr_init(&attr);
	err = -posix_spawn(&r->check, r->program, &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	free(argv);
	return err;
}

static int check_begin(struct agent *agent)
{
	struct restart *r = agent->restart;
	int fds[2], err;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	err = check_spawn(agent, fds[1]);
	close(fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	r->state = RESTART_CHECK;
	r->len = 0;
	event_assign(&r->output, agent->base, fds[0], EV_READ | EV_PERSIST, on_output, agent);
	event_add(&r->output, NULL);
	return 0;
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
	ret = check_begin(agent);
	if (ret) {
		snprintf(err, errlen, "%s: cannot be executed: %s", r->program, strerror(-ret));
		return ret;
	}
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
