// SPDX-License-Identifier: BSD-2-Clause
/* Asking the program that is to follow: it is run with --check-takeover. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/restart.h"
#include "agent/restart_parts.h"

#define CHECK_WORD "takeover:"

static void print_sizes(char *text, size_t size, const struct kv_config *config)
{
	snprintf(text, size, CHECK_WORD " schema %d sizes %u %u %u %u %u", KV_SCHEMA,
		 config->upstreams_per_backend, config->max_backends, config->max_clients,
		 config->max_prefixes, config->max_sessions);
}

void restart_print_check(const struct kv_config *config)
{
	char line[RESTART_TEXT];

	print_sizes(line, sizeof(line), config);
	puts(line);
}

static enum restart_verdict verdict(const struct restart_check *check, int status)
{
	const char *found = strstr(check->text, CHECK_WORD);
	char own[RESTART_TEXT];

	if (!WIFEXITED(status) || WEXITSTATUS(status) || !found)
		return RESTART_REFUSED;
	print_sizes(own, sizeof(own), check->agent->config);
	return !strncmp(found, own, strlen(own)) && found[strlen(own)] == '\n' ? RESTART_FITS
									       : RESTART_OTHER_MAPS;
}

static void on_output(evutil_socket_t fd, short what, void *arg)
{
	struct restart_check *check = arg;
	char more[RESTART_TEXT];
	ssize_t n = read(fd, more, sizeof(more));
	size_t room = sizeof(check->text) - 1 - check->len;
	int status = 0;

	(void)what;
	if (n > 0) {
		size_t take = (size_t)n < room ? (size_t)n : room;

		memcpy(check->text + check->len, more, take);
		check->len += take;
		return;
	}
	event_del(&check->output);
	close(fd);
	check->text[check->len] = 0;
	/* It has closed its output: it is ending. */
	while (waitpid(check->pid, &status, 0) < 0 && errno == EINTR)
		;
	restart_checked(check->agent, verdict(check, status));
}

/* Our own arguments, and one more. */
static int check_spawn(struct restart_check *check, const char *program, int out)
{
	static char option[] = "--check-takeover";
	char **own = check->agent->keeper.argv;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	char **argv;
	size_t n = 0;
	int err;

	while (own[n])
		n++;
	argv = calloc(n + 2, sizeof(*argv));
	if (!argv)
		return -ENOMEM;
	memcpy(argv, own, n * sizeof(*argv));
	argv[n] = option;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	posix_spawnattr_init(&attr);
	err = -posix_spawn(&check->pid, program, &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	free(argv);
	return err;
}

int restart_check_begin(struct agent *agent, struct restart_check *check, const char *program)
{
	int fds[2], err;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	check->agent = agent;
	check->len = 0;
	err = check_spawn(check, program, fds[1]);
	close(fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	event_assign(&check->output, agent->base, fds[0], EV_READ | EV_PERSIST, on_output, check);
	event_add(&check->output, NULL);
	return 0;
}
