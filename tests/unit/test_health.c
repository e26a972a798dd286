// SPDX-License-Identifier: BSD-2-Clause
/* Health of a pool: scripts with virtual time, then rules that hold whatever happens. */
#include "check.h"
#include "engines/health.h"

#define SECOND 1000000000ull
#define START (1000 * SECOND)

static struct health_pool pool;
static uint64_t now;
static unsigned int changes;
static const char *last_why;

static void changed(void *arg, uint32_t id, enum health_state old, const char *why)
{
	(void)arg;
	(void)id;
	(void)old;
	changes++;
	last_why = why;
}

static void start(uint32_t n, bool probed)
{
	pool = (struct health_pool){.options = HEALTH_DEFAULTS, .changed = changed};
	now = START;
	for (uint32_t i = 0; i < n; i++)
		health_add(&pool, i, probed, false, now);
	changes = 0;
}

static void pass(unsigned int seconds)
{
	while (seconds--) {
		now += SECOND;
		health_tick(&pool, now);
	}
}

static void all_good(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		health_probed(&pool, i, PROBE_GOOD, now);
}

/* One letter a step: what happens to member 0 of three, the others being well. */
static void run(const char *script)
{
	for (; *script; script++) {
		switch (*script) {
		case 'g':
			health_probed(&pool, 0, PROBE_GOOD, now);
			break;
		case 'b':
			health_probed(&pool, 0, PROBE_BAD, now);
			break;
		case 'r':
			health_probed(&pool, 0, PROBE_REFUSED, now);
			break;
		case 'u':
			health_probed(&pool, 0, PROBE_UNKNOWN, now);
			break;
		case 'm':
			health_probed(&pool, 0, PROBE_MUTE, now);
			break;
		case 'c':
			health_connected(&pool, 0, now);
			break;
		case 's':
			health_outcomes(&pool, 0, 7, 0, now);
			break;
		case 'f':
			health_outcomes(&pool, 0, 0, 5, now);
			break;
		case 'S':
			health_outcome(&pool, 0, OUTCOME_SUCCESS, now);
			break;
		case 'F':
			health_outcome(&pool, 0, OUTCOME_FAILURE, now);
			break;
		case 'R':
			health_outcome(&pool, 0, OUTCOME_REFUSED, now);
			break;
		case 'B':
			health_outcome(&pool, 0, OUTCOME_BUSY, now);
			break;
		case 'N':
			health_outcome(&pool, 0, OUTCOME_NEUTRAL, now);
			break;
		case '4':
			health_outcome(&pool, 0, outcome_of_status(400 + (script[1] & 31)), now);
			break;
		case '1':
			pass(1);
			break;
		case '5':
			pass(5);
			break;
		case 'X':
			pass(10);
			break;
		}
	}
}

static const struct {
	const char *script;
	enum health_state end;
} scripts[] = {
	/* the first probe, or the first request, tells */
	{"", HEALTH_NEW},
	{"g", HEALTH_UP},
	{"S", HEALTH_UP},
	{"F", HEALTH_NEW},
	{"b", HEALTH_DOWN},
	{"m", HEALTH_UP},
	{"r", HEALTH_DOWN},
	{"uuu", HEALTH_NEW},
	{"rg", HEALTH_UP},
	{"bbbg", HEALTH_UP},
	/* bad probes in a row; what is well meanwhile undoes them */
	{"gbb", HEALTH_UP},
	{"gbbb", HEALTH_DOWN},
	{"gbbgbb", HEALTH_UP},
	{"gbbSbb", HEALTH_UP},
	{"gbSbSbSbSbSbS", HEALTH_UP},
	{"gbuuub", HEALTH_UP},
	{"gbbbS", HEALTH_UP},
	/* refused is refused: what runs to its end on old connections does not count */
	{"gr", HEALTH_DOWN},
	{"gR", HEALTH_DOWN},
	{"grS", HEALTH_DOWN},
	{"grb", HEALTH_DOWN},
	{"grbS", HEALTH_UP},
	/* it listens again: gets requests, and one bad probe is enough */
	{"grc", HEALTH_UP},
	{"grcb", HEALTH_DOWN},
	{"grcSb", HEALTH_UP},
	{"grcgb", HEALTH_UP},
	{"gbbbc", HEALTH_DOWN},
	{"bmc", HEALTH_DOWN},
	{"mb", HEALTH_DOWN},
	{"mSbb", HEALTH_UP},
	/* many at once */
	{"gf", HEALTH_EJECTED},
	{"gsf", HEALTH_UP},
	{"gsff", HEALTH_EJECTED},
	{"gf5s", HEALTH_UP},
	{"gRg", HEALTH_UP},
	/* by rate: half of all, and five at least */
	{"gFFFF", HEALTH_UP},
	{"gFFFFF", HEALTH_EJECTED},
	{"gSSSSSFFFFF", HEALTH_EJECTED},
	{"gSSSSSSFFFFF", HEALTH_UP},
	{"gSSFSFSFSFSF", HEALTH_UP},
	{"gSSFSFSFSFSFF", HEALTH_EJECTED},
	{"gFFFFXFFFF", HEALTH_UP},
	{"gFFFF5FFFF", HEALTH_EJECTED},
	{"gBBBBBBBBBBNNNNNN444444444444", HEALTH_UP},
	/* half open when its time is over */
	{"gFFFFF111", HEALTH_EJECTED},
	{"gFFFFF5", HEALTH_TRIAL},
	{"gFFFFFSSSS", HEALTH_EJECTED},
	{"gFFFFFg", HEALTH_EJECTED},
	{"gFFFFF5SS", HEALTH_TRIAL},
	{"gFFFFF5SSS", HEALTH_UP},
	{"gFFFFF5SSF", HEALTH_EJECTED},
	{"gFFFFF5F5", HEALTH_EJECTED},
	{"gFFFFF5FX", HEALTH_TRIAL},
	{"gFFFFF5FXFX", HEALTH_EJECTED},
	{"gFFFFF5FXFXX", HEALTH_TRIAL},
	{"gFFFFF5X", HEALTH_UP},
	{"gFFFFF5bX", HEALTH_TRIAL},
	{"gFFFFFb5", HEALTH_EJECTED},
	{"gFFFFFb5g1", HEALTH_TRIAL},
	{"gFFFFFbbb", HEALTH_DOWN},
	{"gFFFFFr", HEALTH_DOWN},
	{"gFFFFF5R", HEALTH_DOWN},
	/* what failed before does not count afterwards */
	{"gFFFFrgF", HEALTH_UP},
	{"gFFFFF5SSSFFFF", HEALTH_UP},
};

static void every_script(void)
{
	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
		start(3, true);
		health_probed(&pool, 1, PROBE_GOOD, now);
		health_probed(&pool, 2, PROBE_GOOD, now);
		run(scripts[i].script);
		if (pool.members[0].state != scripts[i].end)
			printf("# %s: %s\n", scripts[i].script,
			       health_state_name(pool.members[0].state));
		CHECK_EQ(pool.members[0].state, scripts[i].end);
		CHECK_EQ(health_takes(&pool, 0),
			 scripts[i].end == HEALTH_UP || scripts[i].end == HEALTH_TRIAL);
		CHECK_EQ(health_limit(&pool, 0), scripts[i].end == HEALTH_TRIAL);
		CHECK(health_takes(&pool, 1) && health_takes(&pool, 2));
	}
}

static void fail(uint32_t id)
{
	for (int i = 0; i < 5; i++)
		health_outcome(&pool, id, OUTCOME_FAILURE, now);
}

static uint32_t n_out(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < HEALTH_MEMBERS; i++)
		n += !pool.members[i].draining && (pool.members[i].state == HEALTH_EJECTED ||
						   pool.members[i].state == HEALTH_TRIAL);
	return n;
}

static void share(void)
{
	static const struct {
		uint32_t n, percent, most;
	} cases[] = {{1, 100, 0}, {2, 50, 1},  {2, 49, 0}, {2, 100, 1}, {3, 50, 1},
		     {4, 50, 2},  {10, 34, 3}, {10, 0, 0}, {5, 100, 4}, {256, 10, 25}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		start(cases[i].n, false);
		pool.options.share_percent = cases[i].percent;
		for (uint32_t id = 0; id < cases[i].n; id++)
			fail(id);
		CHECK_EQ(n_out(), cases[i].most);
		CHECK_EQ(health_taking(&pool), cases[i].n - cases[i].most);
		CHECK(pool.spared > 0 || cases[i].most == cases[i].n);
	}
	/* those out count until they are back */
	start(4, false);
	fail(0);
	fail(1);
	pass(5);
	CHECK_EQ(pool.members[0].state, HEALTH_TRIAL);
	fail(2);
	CHECK_EQ(pool.members[2].state, HEALTH_UP);
	/* the others go: who has been out for longest comes back */
	start(4, false);
	fail(0);
	pass(1);
	fail(1);
	health_remove(&pool, 3, now);
	CHECK_EQ(pool.members[0].state, HEALTH_UP);
	CHECK_EQ(pool.members[1].state, HEALTH_EJECTED);
	health_outcome(&pool, 0, OUTCOME_REFUSED, now);
	CHECK_EQ(pool.members[1].state, HEALTH_EJECTED);
	health_drain(&pool, 2, true, now);
	CHECK_EQ(pool.members[1].state, HEALTH_UP);
	CHECK_STR(last_why, "too many would be ejected");
}

static void draining(void)
{
	start(3, true);
	all_good(3);
	changes = 0;
	health_drain(&pool, 0, true, now);
	health_drain(&pool, 0, true, now);
	CHECK_EQ(changes, 1);
	CHECK_STR(last_why, "drained");
	CHECK(!health_takes(&pool, 0));
	CHECK_EQ(health_weight(&pool, 0, now), 0);
	health_probed(&pool, 0, PROBE_GOOD, now);
	run("SSSFFFFFFFF");
	CHECK_EQ(pool.members[0].state, HEALTH_UP);
	CHECK(!health_takes(&pool, 0));
	health_drain(&pool, 0, false, now);
	CHECK(health_takes(&pool, 0));
	CHECK_EQ(health_taking(&pool), 3);
}

static void slow_start(void)
{
	uint32_t last = 0, weight = 0;

	start(2, true);
	all_good(2);
	CHECK_EQ(health_weight(&pool, 0, now), pool.options.slow_start_from);
	for (int i = 0; i < 30; i++) {
		pass(1);
		weight = health_weight(&pool, 0, now);
		CHECK(weight > last);
		last = weight;
	}
	CHECK_EQ(weight, HEALTH_FULL);
	/* the cache was lost */
	pass(100);
	health_new_cache(&pool, 0, now);
	CHECK_EQ(health_weight(&pool, 0, now), pool.options.slow_start_from);
	CHECK_EQ(health_weight(&pool, 1, now), HEALTH_FULL);
	pass(31);
	CHECK_EQ(health_weight(&pool, 0, now), HEALTH_FULL);
	/* down and back */
	health_outcome(&pool, 0, OUTCOME_REFUSED, now);
	CHECK_EQ(health_weight(&pool, 0, now), 0);
	health_probed(&pool, 0, PROBE_GOOD, now);
	CHECK_EQ(health_weight(&pool, 0, now), pool.options.slow_start_from);
	pool.options.slow_start_ms = 0;
	CHECK_EQ(health_weight(&pool, 0, now), HEALTH_FULL);
	/* on trial it stays low */
	start(2, false);
	pass(50);
	fail(0);
	pass(5);
	CHECK_EQ(pool.members[0].state, HEALTH_TRIAL);
	CHECK_EQ(health_weight(&pool, 0, now), pool.options.slow_start_from);
	/* with nobody else it is not held to one request at a time */
	CHECK_EQ(health_limit(&pool, 0), 1);
	health_outcome(&pool, 1, OUTCOME_REFUSED, now);
	CHECK_EQ(health_limit(&pool, 0), 0);
}

static void ejections_grow_and_are_forgotten(void)
{
	start(2, false);
	for (unsigned int i = 0, seconds = 5; i < 12; i++) {
		fail(0);
		CHECK_EQ(pool.members[0].state, HEALTH_EJECTED);
		pass(seconds - 1);
		CHECK_EQ(pool.members[0].state, HEALTH_EJECTED);
		pass(1);
		CHECK_EQ(pool.members[0].state, HEALTH_TRIAL);
		run("SSS");
		CHECK_EQ(pool.members[0].state, HEALTH_UP);
		seconds = seconds * 2 < 300 ? seconds * 2 : 300;
	}
	for (int i = 0; i < 20; i++)
		pass(60);
	CHECK_EQ(pool.members[0].ejections, 0);
}

static void odd(void)
{
	start(1, true);
	health_probed(&pool, HEALTH_MEMBERS, PROBE_GOOD, now);
	health_outcome(&pool, 7, OUTCOME_FAILURE, now);
	health_drain(&pool, 7, true, now);
	health_new_cache(&pool, 7, now);
	health_remove(&pool, 7, now);
	health_add(&pool, HEALTH_MEMBERS, true, false, now);
	CHECK(!health_takes(&pool, HEALTH_MEMBERS) && !health_takes(&pool, 7));
	CHECK_EQ(changes, 0);
	health_remove(&pool, 0, now);
	CHECK_EQ(pool.members[0].state, HEALTH_NONE);
	CHECK_EQ(health_taking(&pool), 0);
}

static uint64_t seed = 88172645463325252ull;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static void step(uint32_t n, bool probed)
{
	uint32_t id = rnd(n);

	switch (rnd(12)) {
	case 0:
		health_probed(&pool, id, probed ? rnd(4) : PROBE_UNKNOWN, now);
		break;
	case 1:
		health_drain(&pool, id, rnd(2), now);
		break;
	case 2:
		health_new_cache(&pool, id, now);
		break;
	case 3:
		health_remove(&pool, id, now);
		break;
	case 4:
		health_add(&pool, id, probed, false, now);
		break;
	case 5:
		pass(rnd(8));
		break;
	default:
		health_outcome(&pool, id, probed || rnd(3) ? rnd(5) : OUTCOME_FAILURE, now);
	}
	now += rnd(400) * 1000000ull;
}

/* Not over the share, and never nobody while one could. */
static void hold(uint32_t n)
{
	uint32_t counted = 0, able = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct health *h = &pool.members[i];

		counted += h->state != HEALTH_NONE && !h->draining;
		able += !h->draining && h->state >= HEALTH_UP && h->state != HEALTH_DOWN;
		CHECK(health_weight(&pool, i, now) <= HEALTH_FULL);
		CHECK_EQ(health_takes(&pool, i), health_weight(&pool, i, now) > 0);
		CHECK(!h->draining || !health_takes(&pool, i));
	}
	CHECK(n_out() * 100 <= counted * pool.options.share_percent);
	CHECK(!able || health_taking(&pool));
}

/* From whatever there is: all is well from now on, and so all come back. */
static void comes_back(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (pool.members[i].state == HEALTH_NONE)
			health_add(&pool, i, true, false, now);
		else
			health_drain(&pool, i, false, now);
	for (int s = 0; s < 400; s++) {
		all_good(n);
		for (uint32_t i = 0; i < n; i++)
			if (health_takes(&pool, i) && rnd(2))
				health_outcome(&pool, i, OUTCOME_SUCCESS, now);
		pass(1);
	}
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(health_weight(&pool, i, now), HEALTH_FULL);
	CHECK_EQ(n_out(), 0);
}

static void anything(void)
{
	for (int turn = 0; turn < 30; turn++) {
		uint32_t n = 1 + rnd(turn % 2 ? 4 : 20);
		bool probed = turn % 3;

		start(n, probed);
		pool.options.share_percent = rnd(101);
		for (int i = 0; i < 400; i++) {
			step(n, probed);
			hold(n);
		}
		comes_back(n);
	}
}

/* All dead at the start; all die; all come back. */
static void all_die(void)
{
	start(4, true);
	CHECK_EQ(health_taking(&pool), 0);
	for (int i = 0; i < 4; i++)
		health_probed(&pool, i, PROBE_REFUSED, now);
	CHECK_EQ(health_taking(&pool), 0);
	all_good(2);
	CHECK_EQ(health_taking(&pool), 2);
	all_good(4);
	CHECK_EQ(health_taking(&pool), 4);
	for (int i = 0; i < 4; i++)
		health_outcome(&pool, i, OUTCOME_REFUSED, now);
	CHECK_EQ(health_taking(&pool), 0);
	pass(1000);
	CHECK_EQ(health_taking(&pool), 0);
	all_good(4);
	CHECK_EQ(health_taking(&pool), 4);
	/* an ejected one, and then the others die: better that than nobody */
	fail(0);
	CHECK_EQ(pool.members[0].state, HEALTH_EJECTED);
	for (int i = 1; i < 4; i++)
		health_outcome(&pool, i, OUTCOME_REFUSED, now);
	CHECK_EQ(pool.members[0].state, HEALTH_UP);
}

int main(void)
{
	TEST("scripts")
	every_script();
	TEST("at most a share is ejected")
	share();
	TEST("drain")
	draining();
	TEST("slow start")
	slow_start();
	TEST("ejections last longer each time, and are forgotten")
	ejections_grow_and_are_forgotten();
	TEST("all die, all come back")
	all_die();
	TEST("members that are not there")
	odd();
	TEST("whatever happens")
	anything();
	return check_done();
}
