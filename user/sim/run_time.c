// SPDX-License-Identifier: BSD-2-Clause
/* What happens to a run's fleet between two requests: answers, incidents, looks at rates. */
#include <stdlib.h>

#include "sim/run_private.h"

#define ATTEMPTS 3 /* engines that a request is given to in all, as the agent has it */

void sim_run_answer(struct sim_run *r, double now)
{
	if (r->next_answer > now)
		return;
	r->next_answer = 1e300;
	for (uint32_t k = 0; k < r->options->backends; k++) {
		struct sim_ring *q = &r->queues[k];

		for (; q->head != q->tail; q->head++) {
			const struct sim_flight *f = sim_ring_head(q, sizeof(*f));

			if (f->done > now) {
				if (f->done < r->next_answer)
					r->next_answer = f->done;
				break;
			}
			if (f->done > r->end)
				r->end = f->done;
			free(f->kept);
			r->requests[k]--;
			if (r->steering)
				sim_steering_answered(r->steering, k, f->done, f->found);
		}
	}
}

/* No byte of its answer has come: another engine can have it. */
static int again(struct sim_run *r, double now, uint32_t from, struct sim_kept *kept)
{
	int err = 0;

	sim_run_uncount(r, kept);
	if (kept->attempts == ATTEMPTS) {
		sim_run_fail(r, &kept->request);
	} else {
		r->retried++;
		err = sim_run_send(r, now, &kept->request, from, kept->attempts + 1);
	}
	free(kept);
	return err;
}

static int away(struct sim_run *r, uint32_t k, double now)
{
	struct sim_engine *e = &r->engines[k];
	struct sim_ring *q = &r->queues[k];
	uint32_t n = q->tail - q->head;
	struct sim_flight f;
	int err = 0;

	if (r->steering)
		sim_steering_away(r->steering, k, now);
	r->requests[k] -= n;
	sim_cache_clear(&e->cache);
	e->cold = true;
	e->work -= sim_engine_wait(e, now); /* that it will not do */
	e->free_at = now + SIM_RESTART_S;
	while (n-- && !err) {
		f = *(struct sim_flight *)sim_ring_head(q, sizeof(f));
		q->head++;
		err = again(r, now, k, f.kept);
	}
	return err;
}

/* Nobody is told. */
static void caches(struct sim_run *r, uint32_t engine, bool off)
{
	for (uint32_t k = 0; k < r->options->backends; k++) {
		if (engine != SIM_EVERY && engine != k)
			continue;
		sim_cache_clear(&r->engines[k].cache);
		r->engines[k].off = off;
	}
}

static int happen(struct sim_run *r, const struct sim_incident *i)
{
	struct sim_engine *e = &r->engines[i->engine == SIM_EVERY ? 0 : i->engine];

	if (i->kind == SIM_SLOW) {
		e->rate /= i->factor;
		if (r->steering)
			sim_steering_rate(r->steering, i->engine, e->rate);
	} else if (i->kind == SIM_RESTART) {
		r->restarts--;
		return away(r, i->engine, i->at_s);
	} else if (r->steering && i->kind == SIM_RESTARTED) {
		sim_steering_back(r->steering, i->engine);
	} else if (r->steering && i->kind == SIM_AGENT_RESTART) {
		sim_steering_agent(r->steering);
	} else if (i->kind == SIM_CACHE_OFF || i->kind == SIM_CACHE_ON) {
		caches(r, i->engine, i->kind == SIM_CACHE_OFF);
	}
	return 0;
}

int sim_run_pass_time(struct sim_run *r, double now)
{
	const struct sim_incidents *incidents = &r->options->incidents;
	int err = 0;

	while (!err) {
		const struct sim_incident *i = &incidents->all[r->incident];
		double at = r->incident < incidents->n ? i->at_s : 1e300;

		if (r->options->learn_rates && r->second <= now && r->second < at) {
			sim_run_answer(r, r->second);
			if (r->steering)
				sim_steering_second(r->steering, r->second);
			r->second += 1;
		} else if (at <= now) {
			sim_run_answer(r, at);
			r->incident++;
			err = happen(r, i);
		} else {
			break;
		}
	}
	sim_run_answer(r, now);
	return err;
}
