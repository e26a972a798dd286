// SPDX-License-Identifier: BSD-2-Clause
/*
 * On a socket of its own and by kvsteer's own response framing. libevent's HTTP client was tried:
 * it loses the error of connect() (refused or unreachable?), its time-outs are per read, so that a
 * byte a second keeps it for ever, and it refuses chunk extensions.
 */
#include "engines/fetch.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <kvsteer/framing.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engines/time.h"

#define REQUEST_MAX 512
#define READ_MAX 16384
#define READS_PER_TURN 8 /* others wait */
#define TLS_ALERT 0x15
#define TLS_HANDSHAKE 0x16

struct fetch {
	struct fetch_request request;
	int fd;
	struct event io;
	struct event timer;
	struct event end;
	enum fetch_result result;
	struct kv_framing framing;
	uint64_t bytes;
	char text[REQUEST_MAX]; /* the request */
	size_t len, sent;	/* sent: the body that is posted counts behind it */
	unsigned char first[5]; /* of the answer */
	size_t n_first;
};

static void end_with(struct fetch *f, enum fetch_result result)
{
	event_del(&f->io);
	f->result = result;
	event_active(&f->end, EV_TIMEOUT, 0);
}

static void free_all(struct fetch *f)
{
	event_del(&f->io);
	event_del(&f->timer);
	event_del(&f->end);
	if (f->fd >= 0)
		close(f->fd);
	free(f);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct fetch *f = arg;
	struct fetch_request request = f->request;
	enum fetch_result result = f->result;
	int status = result == FETCH_ANSWERED ? f->framing.status : 0;

	(void)fd;
	(void)what;
	free_all(f);
	request.done(request.arg, result, status);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct fetch *f = arg;

	(void)fd;
	(void)what;
	/* what has ended in this turn of the loop has ended in time */
	if (!event_pending(&f->end, EV_TIMEOUT, NULL))
		end_with(f, FETCH_TIMEOUT);
}

static enum fetch_result by_errno(int err)
{
	switch (err) {
	case ECONNREFUSED:
		return FETCH_REFUSED;
	case ETIMEDOUT:
		return FETCH_TIMEOUT;
	case ECONNRESET:
	case EPIPE:
		return FETCH_BROKEN;
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENETDOWN:
	case EHOSTDOWN:
	case EINVAL: /* an address that nobody can have */
	case EACCES: /* "prohibit" routes; broadcast */
		return FETCH_UNREACHABLE;
	default:
		return FETCH_LOCAL;
	}
}

static bool is_tls(const struct fetch *f)
{
	return f->n_first >= 2 && (f->first[0] == TLS_ALERT || f->first[0] == TLS_HANDSHAKE) &&
	       f->first[1] == 3;
}

/* Whether it began as an answer does. */
static bool is_http(const struct fetch *f)
{
	return !memcmp(f->first, "HTTP/", f->n_first);
}

static void not_framed(struct fetch *f)
{
	end_with(f, is_tls(f) ? FETCH_TLS : FETCH_GARBAGE);
}

static void on_eof(struct fetch *f)
{
	if (f->framing.state == KV_FRAMING_UNTIL_CLOSE)
		end_with(f, FETCH_ANSWERED);
	else if (is_http(f))
		end_with(f, FETCH_BROKEN);
	else
		not_framed(f);
}

/* false: it has ended. */
static bool take_body(struct fetch *f, const char *data, size_t n)
{
	f->bytes += n;
	if (f->bytes <= f->request.limit &&
	    (!f->request.data || f->request.data(f->request.arg, data, n)))
		return true;
	end_with(f, FETCH_TOO_LARGE);
	return false;
}

/* false: it has ended. */
static bool take(struct fetch *f, const char *data, size_t n)
{
	struct kv_framing *framing = &f->framing;
	size_t some;

	for (; n && !kv_framing_done(framing); data += some, n -= some) {
		if (kv_framing_broken(framing)) {
			not_framed(f);
			return false;
		}
		some = 1;
		if (kv_framing_needs_bytes(framing)) {
			kv_framing_byte(framing, *data);
			kv_framing_count(framing, 1);
			continue;
		}
		framing->done = 0;
		kv_framing_skip(framing, n);
		some = framing->done;
		if (!take_body(f, data, some))
			return false;
	}
	if (kv_framing_done(framing))
		end_with(f, FETCH_ANSWERED);
	else if (kv_framing_broken(framing))
		not_framed(f);
	else
		return true;
	return false;
}

static void on_readable(struct fetch *f)
{
	char data[READ_MAX];
	ssize_t n;

	for (int i = 0; i < READS_PER_TURN; i++) {
		n = read(f->fd, data, sizeof(data));
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			end_with(f, by_errno(errno));
		else if (!n)
			on_eof(f);
		if (n <= 0)
			return;
		for (ssize_t k = 0; k < n && f->n_first < sizeof(f->first); k++)
			f->first[f->n_first++] = data[k];
		if (!take(f, data, n))
			return;
	}
}

static void on_io(evutil_socket_t fd, short what, void *arg);

static void watch(struct fetch *f, short what)
{
	event_del(&f->io);
	event_assign(&f->io, event_get_base(&f->timer), f->fd, what | EV_PERSIST, on_io, f);
	event_add(&f->io, NULL);
}

static void on_writable(struct fetch *f)
{
	socklen_t len = sizeof(int);
	ssize_t n;
	int err;

	if (!f->sent && getsockopt(f->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (!f->sent && err) {
		end_with(f, by_errno(err));
		return;
	}
	if (f->sent < f->len)
		n = send(f->fd, f->text + f->sent, f->len - f->sent,
			 MSG_NOSIGNAL | (f->request.body_len ? MSG_MORE : 0));
	else
		n = send(f->fd, f->request.body + (f->sent - f->len),
			 f->len + f->request.body_len - f->sent, MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		end_with(f, by_errno(errno));
		return;
	}
	f->sent += n > 0 ? n : 0;
	if (f->sent == f->len + f->request.body_len)
		watch(f, EV_READ);
}

static void on_io(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	if (what & EV_WRITE)
		on_writable(arg);
	else
		on_readable(arg);
}

/* 0, or a positive errno: nothing waits for it then. */
static int open_socket(struct fetch *f, const struct kv_addr *to)
{
	struct sockaddr_storage ss;
	socklen_t len = kv_addr_to_sockaddr(to, &ss);

	f->fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (f->fd < 0)
		return errno;
	if (connect(f->fd, (struct sockaddr *)&ss, len) && errno != EINPROGRESS)
		return errno;
	return 0;
}

struct fetch *fetch_start(struct event_base *base, const struct kv_addr *to,
			  const struct fetch_request *request)
{
	struct timeval timeout = ms_timeval(request->timeout_ms);
	struct fetch *f = calloc(1, sizeof(*f));
	char host[KV_ADDR_TEXT], content[96] = "";
	int err;

	if (!f)
		return NULL;
	f->request = *request;
	kv_framing_init(&f->framing, false);
	if (request->body)
		snprintf(content, sizeof(content),
			 "Content-Type: application/json\r\nContent-Length: %zu\r\n",
			 request->body_len);
	f->len = snprintf(f->text, sizeof(f->text),
			  "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: kvsteerd\r\nAccept: */*\r\n"
			  "%sConnection: close\r\n\r\n",
			  request->body ? "POST" : "GET", request->path,
			  kv_addr_format(to, host, sizeof(host)), content);
	if (f->len >= sizeof(f->text)) {
		free(f);
		return NULL;
	}
	evtimer_assign(&f->timer, base, on_timer, f);
	evtimer_assign(&f->end, base, on_end, f);
	evtimer_assign(&f->io, base, on_io, f);
	err = open_socket(f, to);
	if (err) {
		end_with(f, by_errno(err));
		return f;
	}
	watch(f, EV_WRITE);
	evtimer_add(&f->timer, &timeout);
	return f;
}

void fetch_cancel(struct fetch *f)
{
	if (f)
		free_all(f);
}

const char *fetch_result_text(enum fetch_result result)
{
	static const char *const texts[] = {
		[FETCH_ANSWERED] = "answers",
		[FETCH_REFUSED] = "connection refused: is the engine running, is the port right?",
		[FETCH_UNREACHABLE] = "host or network unreachable: is the address right?",
		[FETCH_TIMEOUT] = "no answer in time: is it overloaded, or does a firewall drop?",
		[FETCH_BROKEN] = "the connection ended in the middle of the answer",
		[FETCH_GARBAGE] = "the answer is no proper HTTP: is this the engine's HTTP port?",
		[FETCH_TLS] = "the answer is TLS: an engine's plain HTTP port is needed",
		[FETCH_TOO_LARGE] = "the answer is too large: is this the engine's HTTP port?",
		[FETCH_LOCAL] = "out of files, ports or memory on this host",
	};

	return texts[result];
}
