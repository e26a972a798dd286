// SPDX-License-Identifier: BSD-2-Clause
#include <systemd/sd-daemon.h>

#include "agent/client.h"
#include "agent/clock.h"
#include "agent/discover.h"
#include "agent/discover_file.h"
#include "agent/events.h"
#include "agent/handover.h"
#include "agent/listen.h"
#include "agent/pool.h"
#include "agent/restart.h"
#include "agent/sweep.h"
#include "common/log.h"

#define TICK_FAST_MS 20
#define TICK_SLOW_MS 500
#define TICK_STAY (100 * MS) /* fast for this long after the last reason */

/* ---- the tick ------------------------------------------------------------------------ */

static void clock_pace(struct agent *agent, bool fast)
{
	__u64 ms = fast ? TICK_FAST_MS : TICK_SLOW_MS;

	if (fast == agent->tick_fast || !agent->tick.fn)
		return;
	kv_timer_set(&agent->tick, ms, ms);
	agent->tick_fast = fast;
}

void clock_hurry(struct agent *agent)
{
	agent->tick_fast_until = kv_now_ns() + TICK_STAY;
	clock_pace(agent, true);
}

static void tell_ready(struct agent *agent)
{
	__u32 up = 0, all = 0;

	for (__u32 i = 0; i < agent->dp.max_backends; i++) {
		all += agent->dp.backends[i].state != KV_BACKEND_FREE;
		up += agent->dp.backends[i].state == KV_BACKEND_UP;
	}
	agent->ready = true;
	kv_info("ready: %u of %u backends up", up, all);
	sd_notifyf(0, "READY=1\nSTATUS=%u of %u backends up", up, all);
}

static void on_tick(void *arg)
{
	struct agent *agent = arg;
	__u64 now_ns = kv_now_ns();

	/* The pools also look for slots that ended: what the kernel has to say of them goes first.
	 */
	events_consume(agent);
	restart_tick(agent, now_ns);
	handover_tick(agent, now_ns);
	pool_tick(agent, now_ns);
	client_rechecks(agent);
	if (!agent->ready && pools_known(agent))
		tell_ready(agent);
	if (agent->draining && (!agent->n_clients || now_ns >= agent->drain_until)) {
		if (agent->n_clients)
			kv_warn("%u client connections did not end in time", agent->n_clients);
		event_base_loopbreak(agent->base);
	}
	if (!agent->ready || agent->draining || pools_busy(agent) || clients_waiting(agent))
		clock_hurry(agent);
	else if (now_ns >= agent->tick_fast_until)
		clock_pace(agent, false);
}

static void on_second(void *arg)
{
	struct agent *agent = arg;
	__u64 now_ns = kv_now_ns();

	dataplane_write_meta(&agent->dp, agent->started_ns, now_ns);
	sd_notify(0, "WATCHDOG=1");
	if (!restart_anew(agent))
		listen_resume(agent);
	sweep(agent, now_ns);
	handover_second(agent, now_ns);
	discover_second(agent);
	discover_file_second(agent, now_ns);
}

int clock_open(struct agent *agent)
{
	int err = kv_timer_open(&agent->tick, agent->base, on_tick, agent);

	if (!err)
		err = kv_timer_open(&agent->second, agent->base, on_second, agent);
	if (err)
		return err;
	kv_timer_set(&agent->second, 1000, 1000);
	clock_pace(agent, true);
	return 0;
}

void clock_close(struct agent *agent)
{
	kv_timer_close(&agent->tick);
	kv_timer_close(&agent->second);
}
