// SPDX-License-Identifier: BSD-2-Clause
#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/config.h"
#include "common/json.h"

#define ANSWER_MAX (1u << 20)
#define ANSWER_SECONDS 30

yyjson_mut_val *control_request(yyjson_mut_doc *doc, const char *verb)
{
	yyjson_mut_val *root = yyjson_mut_obj(doc);

	yyjson_mut_doc_set_root(doc, root);
	yyjson_mut_obj_add_str(doc, root, "verb", verb);
	return root;
}

static int open_control(struct cli *cli, int *ret)
{
	const char *path = cli->control ?: KV_DEFAULT_CONTROL;
	struct timeval patience = {.tv_sec = ANSWER_SECONDS};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd;

	if (strlen(path) >= sizeof(un.sun_path))
		return cli_error(cli, "%s: path too long for a socket", path);
	strcpy(un.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return cli_error(cli, "cannot make a socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (struct sockaddr *)&un, sizeof(un))) {
		*ret = fd;
		return 0;
	}
	switch (errno) {
	case ENOENT:
	case ECONNREFUSED:
		cli_error(cli,
			  "kvsteerd is down (nothing answers at %s): start it, or name its socket "
			  "with --control",
			  path);
		break;
	case EACCES:
	case EPERM:
		cli_error(cli, "%s: no permission: run as root", path);
		break;
	default:
		cli_error(cli, "%s: cannot reach kvsteerd: %s", path, strerror(errno));
	}
	close(fd);
	return CLI_FAILED;
}

static int send_line(struct cli *cli, int fd, const yyjson_mut_doc *request)
{
	size_t len = 0, at = 0;
	_cleanup_free_ char *line = kv_json_line(request, &len);

	if (!line)
		return cli_error(cli, "the request is not UTF-8");
	while (at < len) {
		ssize_t n = send(fd, line + at, len - at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cli_error(cli, "cannot send to kvsteerd: %s", strerror(errno));
		at += n;
	}
	return 0;
}

static int read_line(struct cli *cli, int fd, char *buf, size_t *ret_len)
{
	size_t len = 0;

	while (len < ANSWER_MAX && !memchr(buf, '\n', len)) {
		ssize_t n = recv(fd, buf + len, ANSWER_MAX - len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return cli_error(cli, "kvsteerd does not answer (waited %d s)",
					 ANSWER_SECONDS);
		if (n < 0)
			return cli_error(cli, "no answer from kvsteerd: %s", strerror(errno));
		if (!n)
			break;
		len += n;
	}
	*ret_len = len;
	return 0;
}

int control_call(struct cli *cli, const yyjson_mut_doc *request, yyjson_doc **ret)
{
	_cleanup_free_ char *answer = malloc(ANSWER_MAX);
	_cleanup_json_ yyjson_doc *doc = NULL;
	_cleanup_close_ int fd = -EBADF;
	const char *error;
	size_t len = 0;
	int rc;

	if (!answer)
		return cli_error(cli, "out of memory");
	rc = open_control(cli, &fd) ?: send_line(cli, fd, request)
		?: read_line(cli, fd, answer, &len);
	if (rc)
		return rc;
	doc = yyjson_read(answer, len, YYJSON_READ_STOP_WHEN_DONE);
	if (!doc || !yyjson_is_obj(yyjson_doc_get_root(doc)))
		return cli_error(cli, "kvsteerd went away before it answered");
	error = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "error"));
	if (error)
		return cli_error(cli, "%s", error);
	*ret = kv_take(doc);
	return 0;
}

int control_do(struct cli *cli, const yyjson_mut_doc *request, const char *done)
{
	_cleanup_json_ yyjson_doc *answer = NULL;
	_cleanup_json_mut_ yyjson_mut_doc *copy = NULL;
	int rc = control_call(cli, request, &answer);

	if (rc)
		return rc;
	if (!cli->json) {
		puts(done);
		return CLI_OK;
	}
	copy = yyjson_doc_mut_copy(answer, NULL);
	return cli_print(cli, copy, yyjson_mut_doc_get_root(copy));
}
