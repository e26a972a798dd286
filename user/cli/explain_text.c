// SPDX-License-Identifier: BSD-2-Clause
#include "explain.h"

#include <string.h>

#include "common/affinity.h"
#include "common/config.h"
#include "holder.h"
#include "table.h"

#define HOLDERS_TEXT (KV_HOLDERS * (KV_NAME_LEN + 16))
#define WHY_TEXT 96
#define DOUBT_TEXT (AFFINITY_TEXT + 64)

static const char *name_of(const struct explain *e, __u32 id, char buf[KV_NAME_LEN])
{
	const struct kv_backend *b = view_backend(e->view, id);

	return b ? view_name(b->name, buf) : "-";
}

static void print_request(const struct explain *e)
{
	const struct explain_request *request = &e->request;
	const struct kv_service *service = view_service(e->view, request->query.service);
	char name[KV_NAME_LEN];

	printf("service %s, policy %s", view_name(service->name, name),
	       kv_policy_name(service->policy));
	if (e->report.rule != e->report.policy)
		printf(", here as %s: nothing is known that it could go by",
		       kv_policy_name(e->report.rule));
	printf("\n%s lane: %s\n", request->why == KV_CNT_MAX ? "express" : "agent",
	       explain_lane(request));
	if (request->head.hint_state == KV_HINT_MALFORMED)
		puts("its " KVSTEER_HEADER_NAME " is malformed and does not count");
	if (request->unreadable)
		printf("its body does not count: %s\n", request->unreadable);
}

static void holders_text(const struct explain *e, const struct kv_prefix *rung,
			 char buf[HOLDERS_TEXT])
{
	char name[KV_NAME_LEN];
	size_t n = 0;

	strcpy(buf, "-");
	for (int j = 0; j < KV_HOLDERS; j++) {
		__u64 h = rung->holder[j];
		const char *state = holder_state(e->view, h);
		bool live = !strcmp(state, "live");

		if (h)
			n += snprintf(buf + n, HOLDERS_TEXT - n, "%s%s%s%s%s", n ? ", " : "",
				      name_of(e, kv_holder_backend(h), name), live ? "" : " (",
				      live ? "" : state, live ? "" : ")");
	}
}

static void print_rungs(const struct explain *e)
{
	struct table t = {.columns = ">TOKENS HASH HOLDERS"};
	const struct kv_query *query = &e->request.query;
	char text[HOLDERS_TEXT];

	for (__u32 i = query->n_rungs; i--;) {
		holders_text(e, &e->rungs[i], text);
		table_add(&t, "%u", query->rungs[i].depth);
		table_add(&t, "%016llx", (unsigned long long)query->rungs[i].hash);
		table_add(&t, "%s",
			  query->rungs[i].depth < e->report.floor ? "below the floor" : text);
	}
	if (t.n)
		table_print(&t, stdout, "  ");
}

/* The longest that is believed, where none counts. */
static void print_believed(const struct explain *e)
{
	const struct steering_candidate *most = NULL;
	char name[KV_NAME_LEN];

	for (__u32 i = 0; i < e->report.n; i++)
		if (!most || e->report.candidates[i].believed > most->believed)
			most = &e->report.candidates[i];
	if (most && most->believed)
		printf("no match that counts: %s is believed to hold %u tokens\n",
		       name_of(e, most->backend, name), most->believed);
	else
		puts("no match: no backend is believed to hold any of it");
}

static void print_prompt(const struct explain *e)
{
	const struct kv_query *query = &e->request.query;
	const struct steering_report *r = &e->report;
	char name[KV_NAME_LEN];

	printf("prompt: %u tokens, known by: %s; %u rungs\n", r->need, e->request.prompt,
	       query->n_rungs);
	print_rungs(e);
	if (query->session && !query->n_rungs)
		printf("session: %s%s\n", e->home ? "last at " : "not known",
		       e->home ? name_of(e, kv_holder_backend(e->home), name) : "");
	if (r->choice.best)
		printf("longest match: %u tokens, at %s\n", r->choice.best,
		       name_of(e, r->deepest, name));
	else if (!e->err)
		print_believed(e);
}

/* What the policy compares at one candidate. */
static const char *why(const struct steering_report *r, const struct steering_candidate *c,
		       char buf[WHY_TEXT])
{
	switch (r->rule) {
	case KV_POLICY_PRICE:
		snprintf(buf, WHY_TEXT, "%.3fs queued + %.3fs to compute * %.2f = %.3fs", c->wait_s,
			 c->own_s, 1 + r->choice.price / 1024.0, c->cost_s);
		break;
	case KV_POLICY_TTFT:
	case KV_POLICY_STICKY:
		snprintf(buf, WHY_TEXT, "%.3fs queued + %.3fs to compute = %.3fs%s", c->wait_s,
			 c->own_s, c->cost_s,
			 r->rule == KV_POLICY_STICKY && c->near ? ", holds most" : "");
		break;
	case KV_POLICY_LEAST:
		snprintf(buf, WHY_TEXT, "%.3fs queued, %llu requests", c->wait_s,
			 (unsigned long long)c->load);
		break;
	case KV_POLICY_HASH:
		snprintf(buf, WHY_TEXT, "%llu requests, %s the bound of %llu",
			 (unsigned long long)c->load, c->full ? "at" : "below",
			 (unsigned long long)r->bound);
		break;
	case KV_POLICY_P2C:
		if (r->sampled)
			snprintf(buf, WHY_TEXT, "drawn; %.3fs queued", c->wait_s);
		else
			snprintf(buf, WHY_TEXT, "%.3fs queued: %.1f%% of the draws", c->wait_s,
				 100 * c->chance);
		break;
	default:
		snprintf(buf, WHY_TEXT, "in its turn");
	}
	return buf;
}

/* What it is believed to hold, where that does not count whole. */
static const char *doubt(const struct explain *e, const struct steering_candidate *c,
			 const struct kv_backend *b, char buf[DOUBT_TEXT])
{
	char text[AFFINITY_TEXT];

	buf[0] = 0;
	if (c->believed && c->discount)
		snprintf(buf, DOUBT_TEXT, "; believed %u there, but %s", c->believed,
			 affinity_why(e->report.affinity, b, text));
	return buf;
}

static void print_candidates(const struct explain *e)
{
	struct table t = {.columns = "BACKEND >MATCHED >TO-COMPUTE >IN-FLIGHT >WAITING "
				     ">REQUESTS VERDICT WHY"};
	const struct steering_report *r = &e->report;
	char name[KV_NAME_LEN], text[WHY_TEXT], doubts[DOUBT_TEXT];

	for (__u32 i = 0; i < KV_MAX_BACKENDS; i++) {
		const struct kv_backend *b = view_backend(e->view, i);
		const struct steering_candidate *c = explain_candidate(e, i);

		if (!b || b->service != e->request.query.service)
			continue;
		table_add(&t, "%s", view_name(b->name, name));
		if (!c) {
			for (int blank = 0; blank < 5; blank++)
				table_add(&t, "-");
			table_add(&t, "no candidate");
			table_add(&t, "%s", explain_no_candidate(e, i));
			continue;
		}
		table_add(&t, "%u", c->matched);
		table_add(&t, "%u", c->own);
		table_add(&t, "%llu", (unsigned long long)c->tokens);
		table_add(&t, "%u", c->wait);
		table_add(&t, "%llu", (unsigned long long)c->requests);
		table_add(&t, "%s",
			  i == r->choice.backend ? (r->chance ? "likeliest" : "chosen")
			  : i == r->second	 ? "second"
						 : "");
		table_add(&t, "%s%s", why(r, c, text), doubt(e, c, b, doubts));
	}
	if (t.n)
		table_print(&t, stdout, "  ");
}

static const char *rule_text(const struct explain *e, const struct steering_candidate *choice)
{
	switch (e->report.rule) {
	case KV_POLICY_PRICE:
		return "the least price, what it computes weighing more the busier the fleet is";
	case KV_POLICY_TTFT:
		return "the least time to its first token";
	case KV_POLICY_STICKY:
		return choice->near ? "the shortest queue of those that hold most of it"
				    : "the least time to its first token, as no holder may keep it";
	case KV_POLICY_LEAST:
		return "the shortest queue, then the fewest requests, then whose last change is "
		       "longest ago";
	case KV_POLICY_HASH:
		return e->report.choice.backend == e->report.choice.intended
			       ? "the home of its key"
			       : "the next home of its key: the first is at the bound";
	case KV_POLICY_P2C:
		return "the less loaded of two drawn at random";
	default:
		return "its turn";
	}
}

static void print_diverted(const struct explain *e, const struct steering_candidate *choice)
{
	const struct steering_candidate *holder = explain_candidate(e, e->report.deepest);
	char name[KV_NAME_LEN];

	if (!holder || choice->matched >= holder->matched) {
		puts("not diverted: no other backend holds more of it");
		return;
	}
	printf("diverted: %s holds %u tokens more", name_of(e, holder->backend, name),
	       holder->matched - choice->matched);
	if (explain_has_cost(&e->report))
		printf(", but would cost %.3fs more", holder->cost_s - choice->cost_s);
	else
		printf(", which policy %s does not look at", kv_policy_name(e->report.rule));
	putchar('\n');
}

void explain_text(const struct explain *e)
{
	const struct steering_candidate *choice = explain_candidate(e, e->report.choice.backend);
	char name[KV_NAME_LEN];

	print_request(e);
	print_prompt(e);
	print_candidates(e);
	if (e->err || !choice) {
		puts("refused with status 503, or kept waiting: no backend takes requests");
		return;
	}
	printf("%s %s: %s\n", e->report.chance ? "by chance, likeliest to" : "goes to",
	       name_of(e, choice->backend, name), rule_text(e, choice));
	if (e->report.second != KV_NONE)
		printf("second would be %s\n", name_of(e, e->report.second, name));
	print_diverted(e, choice);
	if (e->request.why == KV_CNT_MAX && !e->view->pool[choice->backend].idle)
		puts("no connection to it is idle: the agent will serve this one after all");
}
