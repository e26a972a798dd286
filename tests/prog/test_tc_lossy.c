// SPDX-License-Identifier: BSD-2-Clause
/*
 * Conversations over bad wires: segments are lost on either side of the gateway, come twice and in
 * any order, and are sent again in other cuts. Both ends must get each other's bytes and no others,
 * and every pair must come to its return.
 */
#include "cases.h"
#include "talk.h"

#define TEXT_MAX 4000
#define PENDING 12
#define STEPS 20000

/* One direction of an exchange: positions are offsets in its text. */
struct stream {
	char *text; /* the last exchange's is kept: its late segments still point there */
	__u32 len;
	__u32 sent;    /* highest byte sent */
	__u32 acked;   /* as its sender knows */
	__u32 arrived; /* in order, as its receiver knows */
	bool has[TEXT_MAX];
};

struct exchange {
	struct stream request, response;
	__u32 first; /* bytes of the request in its first segment */
	int on;	     /* upstream */
};

struct pending {
	struct packet p;
	bool from_client;
};

static struct exchange x;
static struct pending pending[PENDING];
static __u32 n_pending;

/* ---- texts --------------------------------------------------------------------------- */

static void stream_begin(struct stream *s, int exchange)
{
	static char texts[2][2][TEXT_MAX]; /* by direction and by turn */

	memset(s, 0, sizeof(*s));
	s->text = texts[s == &x.response][exchange & 1];
}

static void add(struct stream *s, const void *data, __u32 len)
{
	NEED(s->len + len <= TEXT_MAX);
	memcpy(s->text + s->len, data, len);
	s->len += len;
}

static void add_text(struct stream *s, const char *text)
{
	add(s, text, strlen(text));
}

static void add_body(struct stream *s, __u32 len)
{
	char body[2000];

	for (__u32 i = 0; i < len; i++)
		body[i] = chance(256);
	add(s, body, len);
}

static void make_request(void)
{
	__u32 body = chance(3) ? chance(1500) : 0;
	char head[200];

	snprintf(head, sizeof(head), "PUT /%u HTTP/1.1\r\nHost: a\r\nContent-Length: %u\r\n\r\n",
		 chance(10000), body);
	add_text(&x.request, head);
	x.first = x.request.len + chance(body + 1);
	add_body(&x.request, body);
}

static void make_response(void)
{
	char line[200];
	__u32 len;

	if (chance(2)) {
		len = chance(2000);
		snprintf(line, sizeof(line), "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n", len);
		add_text(&x.response, line);
		add_body(&x.response, len);
		return;
	}
	add_text(&x.response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (__u32 n = chance(8); n; n--) {
		len = 1 + chance(200);
		snprintf(line, sizeof(line), "%x\r\n", len);
		add_text(&x.response, line);
		add_body(&x.response, len);
		add_text(&x.response, "\r\n");
	}
	add_text(&x.response, "0\r\n\r\n");
}

/* ---- sending ------------------------------------------------------------------------- */

static void put(const struct packet *p, bool from_client)
{
	if (!chance(6) || n_pending == PENDING)
		return; /* lost before the gateway */
	pending[n_pending++] = (struct pending){*p, from_client};
	if (!chance(8) && n_pending < PENDING)
		pending[n_pending++] = (struct pending){*p, from_client};
}

/* Something new, something again from where the other end's acknowledgement stands, or an ack. */
static void transmit(bool from_client)
{
	struct stream *out = from_client ? &x.request : &x.response,
		      *in = from_client ? &x.response : &x.request;
	struct peer *from = from_client ? &flow.c : &flow.u[x.on];
	__u32 at = chance(2) ? out->sent : out->acked, len = out->len - at;
	struct packet p;

	if (!from_client && in->arrived < in->len)
		len = 0; /* it answers when it has the request */
	if (len > 1 && (!from_client || at))
		len = 1 + chance(len < 700 ? len : 700);
	if (from_client && !at)
		len = chance(3) ? x.first : out->len; /* the head stays in one segment */
	p = segment(from, len ? PSH : 0, out->text + at, len);
	p.seq = from->base_seq + at;
	p.ack = from->base_ack + in->arrived;
	from->tsval += 3;
	if (at + len > out->sent)
		out->sent = at + len;
	put(&p, from_client);
}

/* ---- arriving ------------------------------------------------------------------------ */

/* At an end: bytes of a stream, and an acknowledgement of the other. */
static void arrive(struct stream *in, struct stream *out, const struct peer *at)
{
	__u32 from = gw.out.seq - at->base_ack, ack = gw.out.ack - at->base_seq;

	/* of the last exchange: an old ack, which says nothing */
	if (ack <= out->sent && ack > out->acked)
		out->acked = ack;
	CHECK((__s32)ack <= (__s32)out->sent);
	if (!gw.out.len)
		return;
	CHECK(from + gw.out.len <= in->len);
	if (from + gw.out.len > in->len)
		return;
	CHECK_MEM(gw.out.data, in->text + from, gw.out.len);
	for (__u32 i = 0; i < gw.out.len; i++)
		in->has[from + i] = true;
	while (in->arrived < in->len && in->has[in->arrived])
		in->arrived++;
}

static void deliver(void)
{
	__u32 k = chance(2) ? 0 : chance(n_pending);
	struct pending one = pending[k];
	const struct peer *to = one.from_client ? &flow.u[x.on] : &flow.c;
	struct peer *from = one.from_client ? &flow.c : &flow.u[x.on];

	memmove(&pending[k], &pending[k + 1], (--n_pending - k) * sizeof(pending[0]));
	gw_ingress(&one.p);
	if (gw.verdict != VERDICT_DROP &&
	    (!from->tsval_sent || (__s32)(one.p.tsval - from->tsval_sent) > 0))
		from->tsval_sent = one.p.tsval;
	if (!reached(to) || !chance(8))
		return; /* dropped, or home; or lost behind the gateway */
	if (one.from_client)
		arrive(&x.request, &x.response, to);
	else
		arrive(&x.response, &x.request, to);
}

/* ---- exchanges ----------------------------------------------------------------------- */

/* The first segment until it is lent; then the rest, until the pair has been returned. */
static void exchange(int number)
{
	struct packet p;
	__u32 step;

	stream_begin(&x.request, number);
	stream_begin(&x.response, number);
	make_request();
	make_response();
	x.on = chance(2);
	gw.backends[BACKEND].idle[0] = BIT(x.on);
	flow_pair(x.on);
	p = segment(&flow.c, PSH, x.request.text, x.first);
	send_from(&flow.c, &p);
	TO_BACKEND(x.on, &p);
	x.request.sent = x.first;
	if (chance(4))
		arrive(&x.request, &x.response, &flow.u[x.on]);
	for (step = 0; step < STEPS && client_entry().state == KV_CLIENT_LENT; step++) {
		if (n_pending && chance(3))
			deliver();
		else
			transmit(chance(2));
	}
	CHECK_EQ(client_entry().state, KV_CLIENT_HOME);
	CHECK_EQ(x.request.arrived, x.request.len);
	CHECK_EQ(x.response.arrived, x.response.len);
	flow.c.seq += x.request.len;
	flow.u[x.on].ack += x.request.len;
	flow.u[x.on].seq += x.response.len;
	flow.c.ack += x.response.len;
	POOLED(x.on);
}

static void test_conversations(void)
{
	unsigned int bad = check_state.bad;

	for (int k = 0; k < 6 && check_state.bad == bad; k++) {
		flow_begin();
		n_pending = 0;
		for (int i = 0; i < 12 && check_state.bad == bad; i++) {
			exchange(i);
			if (!chance(3))
				n_pending = 0;
		}
	}
}

int main(int argc, char **argv)
{
	static const struct prog_test tests[] = {
		{"conversations", test_conversations},
	};

	case_seed(argc, argv);
	return TALK_MAIN(tests);
}
