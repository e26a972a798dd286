// SPDX-License-Identifier: BSD-2-Clause
#include "explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

const struct steering_candidate *explain_candidate(const struct explain *e, __u32 id)
{
	for (__u32 i = 0; i < e->report.n; i++)
		if (e->report.candidates[i].backend == id)
			return &e->report.candidates[i];
	return NULL;
}

const char *explain_no_candidate(const struct explain *e, __u32 id)
{
	const struct kv_backend *b = view_backend(e->view, id);

	if (explain_candidate(e, id))
		return NULL;
	if (!b || b->state != KV_BACKEND_UP)
		return b && b->state == KV_BACKEND_DRAINING ? "draining: it gets no new requests"
							    : "it cannot be reached";
	if (e->request.masked && !(e->request.mask[id / 64] >> (id & 63) & 1))
		return "it does not serve this model";
	if (b->limit && kv_read_once(b->inflight_requests) >= b->limit)
		return "at its limit of requests at a time";
	if (b->weight)
		return "it starts slowly: not this time";
	return "not looked at: neither a holder nor drawn";
}

/* Entries as they are: the decision looks from the deepest rung up, until every candidate has a
 * match. */
static int look_up(struct cli *cli, struct explain *e)
{
	const struct kv_query *query = &e->request.query;
	struct kv_session session;
	int err = 0;

	for (__u32 i = 0; i < query->n_rungs; i++) {
		err = kv_pins_prefix(e->view->pins, query->rungs[i].hash, &e->rungs[i]);
		if (err && err != -ENOENT)
			break;
	}
	if (query->session && (!err || err == -ENOENT)) {
		err = kv_pins_lookup(e->view->pins, KV_PIN_kv_sessions, &query->session, &session);
		e->home = err ? 0 : session.holder;
	}
	if (err && err != -ENOENT)
		return cli_error(cli, "%s: cannot read what is known of the prompt: %s", cli->pin,
				 strerror(-err));
	return 0;
}

int do_explain(struct cli *cli, int argc, char **argv)
{
	_cleanup_pins_ struct kv_pins *pins = NULL;
	_cleanup_free_ struct view *view = malloc(sizeof(*view));
	_cleanup_free_ struct explain *e = calloc(1, sizeof(*e));
	struct explain_options o = {0};
	const struct cli_option options[] = {{"--hint", &o.hint, NULL},
					     {"--session", &o.session, NULL},
					     {"--service", &o.service, NULL},
					     {"--as", &o.as, NULL},
					     HASH_OPTIONS(o.hash),
					     {0}};
	int rc = cli_arguments(cli, &argc, argv, options, 0, 1);

	if (rc)
		return rc;
	if (!e)
		return cli_error(cli, "out of memory");
	o.file = argc ? argv[0] : NULL;
	rc = cli_pins(cli, &pins) ?: view_take(cli, pins, false, view)
		?: view_pick_service(cli, view, o.service, &e->request.query.service)
		?: explain_read(cli, view, &o, &e->request);
	if (rc)
		return rc;
	e->view = view;
	/* Reading the body may have taken its time. */
	view->now_ns = kv_now_ns();
	rc = look_up(cli, e);
	if (rc)
		return rc;
	e->err = steering_explain(view, &e->request.query,
				  e->request.masked ? e->request.mask : NULL, &e->report);
	cli_say_if_down(cli, pins);
	if (cli->json)
		return explain_json(cli, e);
	explain_text(e);
	return CLI_OK;
}
