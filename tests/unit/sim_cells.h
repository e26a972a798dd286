/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Figures of the reference simulators, each the mean over five rates. Left out is where the two are
 * meant to differ, or differ by luck (docs/steering.md, "Is the simulator right?").
 */
#ifndef KVSTEER_TESTS_SIM_CELLS_H
#define KVSTEER_TESTS_SIM_CELLS_H

#include <stdbool.h>

struct figures {
	double hit_rate, mean, p90;
};

struct cell {
	const char *policy;
	bool told;
	int speed;
	struct figures want;
};

static const struct cell of_short[] = {
	{"price", false, 1, {0.2296, 0.7152, 1.666}},
	{"sticky", false, 1, {0.2386, 0.7402, 1.718}},
	{"ttft", false, 1, {0.2262, 0.7158, 1.668}},
	{"price", true, 1, {0.2305, 0.7140, 1.664}},
	{"sticky", true, 1, {0.2428, 0.7368, 1.720}},
	{"ttft", true, 1, {0.2269, 0.7154, 1.662}},
	{"round-robin", false, 1, {0.0670, 1.1160, 2.728}},
	{"llm-d", false, 1, {0.2422, 0.7253, 1.691}},
	{"dynamo", false, 1, {0.2272, 0.7173, 1.669}},
	{"price", false, 3, {0.2319, 1.0070, 2.164}},
	{"sticky", false, 3, {0.2296, 1.0488, 2.242}},
	{"ttft", false, 3, {0.2083, 1.0892, 2.282}},
	{"price", true, 3, {0.2343, 1.0040, 2.154}},
	{"sticky", true, 3, {0.2343, 1.0346, 2.232}},
	{"ttft", true, 3, {0.2110, 1.0696, 2.258}},
	{"round-robin", false, 3, {0.0670, 6.1196, 14.258}},
	{"llm-d", false, 3, {0.2359, 1.0325, 2.227}},
	{"dynamo", false, 3, {0.2108, 1.0726, 2.259}},
	{"least", false, 1, {0.0690, 0.8559, 1.880}},
	{"greedy", false, 1, {0.1754, 0.9690, 2.235}},
	{"least", false, 2, {0.0730, 0.9501, 2.115}},
	{"llm-d", false, 2, {0.2396, 0.7925, 1.780}},
	{"price", false, 2, {0.2272, 0.7758, 1.742}},
	{"price", true, 2, {0.2304, 0.7686, 1.724}},
	{"least", false, 3, {0.0765, 1.9663, 3.707}},
	{"least", false, 4, {0.0724, 17.6702, 30.324}},
	{"greedy", false, 4, {0.2121, 18.9547, 27.548}},
	{"round-robin", false, 4, {0.0670, 21.2600, 40.786}},
	{"llm-d", false, 4, {0.2322, 4.9260, 7.460}},
	{"dynamo", false, 4, {0.2037, 6.7304, 10.152}},
	{"price", false, 4, {0.2383, 4.4410, 6.968}},
	{"sticky", false, 4, {0.2278, 5.1872, 7.822}},
	{"ttft", false, 4, {0.1980, 7.3084, 10.846}},
	{0},
};

static const struct cell of_short_synthetic[] = {
	{"llm-d", false, 1, {0.2068, 0.5981, 1.810}},
	{"dynamo", false, 1, {0.1976, 0.5976, 1.825}},
	{"price", false, 1, {0.2063, 0.5886, 1.794}},
	{"price", true, 1, {0.2061, 0.5898, 1.796}},
	{"sticky", false, 1, {0.2092, 0.6002, 1.820}},
	{"sticky", true, 1, {0.2096, 0.5946, 1.804}},
	{"ttft", false, 1, {0.2031, 0.5894, 1.796}},
	{"ttft", true, 1, {0.2017, 0.5906, 1.798}},
	{"llm-d", false, 3, {0.2114, 1.0696, 2.867}},
	{"price", false, 3, {0.2084, 1.0710, 2.878}},
	{"price", true, 3, {0.2082, 1.0664, 2.870}},
	{"sticky", false, 3, {0.2101, 1.0752, 2.870}},
	{"sticky", true, 3, {0.2105, 1.0742, 2.876}},
	{"ttft", true, 3, {0.1883, 1.1514, 3.076}},
	{"llm-d", false, 4, {0.2104, 7.8900, 11.302}},
	{"dynamo", false, 4, {0.1810, 9.1208, 12.623}},
	{"price", false, 4, {0.2085, 8.0120, 11.454}},
	{"sticky", false, 4, {0.2103, 7.8922, 11.286}},
	{"ttft", false, 4, {0.1813, 9.1458, 12.700}},
	{0},
};

static const struct cell of_conversation[] = {
	{"price", false, 1, {0.2369, 0.6294, 1.500}},
	{"sticky", false, 1, {0.2491, 0.6530, 1.560}},
	{"ttft", false, 1, {0.2331, 0.6290, 1.498}},
	{"price", true, 1, {0.2392, 0.6288, 1.500}},
	{"llm-d", false, 1, {0.2513, 0.6493, 1.554}},
	{"dynamo", false, 1, {0.2335, 0.6297, 1.506}},
	{"price", false, 3, {0.2438, 0.8428, 1.868}},
	{"sticky", false, 3, {0.2412, 0.8790, 1.960}},
	{"ttft", false, 3, {0.2107, 0.8912, 1.966}},
	{"price", true, 3, {0.2467, 0.8398, 1.874}},
	{"llm-d", false, 3, {0.2455, 0.8736, 1.958}},
	{"dynamo", false, 3, {0.2140, 0.8917, 1.974}},
	{"least", false, 1, {0.0758, 0.7590, 1.734}},
	{"price", false, 2, {0.2384, 0.6780, 1.580}},
	{"least", false, 3, {0.0755, 1.4441, 3.137}},
	{"price", false, 4, {0.2555, 1.9162, 3.986}},
	{"price", true, 4, {0.2581, 1.8522, 3.850}},
	{"sticky", false, 4, {0.2375, 2.4666, 4.700}},
	{"llm-d", false, 4, {0.2420, 2.2654, 4.412}},
	{"dynamo", false, 4, {0.2048, 6.2851, 10.330}},
	{0},
};

static const struct cell of_synthetic[] = {
	{"price", false, 1, {0.5164, 0.4812, 1.574}},
	{"sticky", false, 1, {0.5239, 0.5040, 1.664}},
	{"ttft", false, 1, {0.5052, 0.4848, 1.584}},
	{"price", true, 1, {0.5175, 0.4780, 1.574}},
	{"llm-d", false, 1, {0.5296, 0.4835, 1.597}},
	{"dynamo", false, 1, {0.5074, 0.4878, 1.623}},
	{"price", false, 3, {0.5181, 0.7444, 2.142}},
	{"sticky", false, 3, {0.5252, 0.7732, 2.204}},
	{"ttft", false, 3, {0.4815, 0.8410, 2.308}},
	{"price", true, 3, {0.5242, 0.7336, 2.112}},
	{"llm-d", false, 3, {0.5288, 0.7530, 2.164}},
	{"dynamo", false, 3, {0.4821, 0.8377, 2.320}},
	{"least", false, 1, {0.1090, 0.8627, 2.339}},
	{"price", false, 2, {0.5140, 0.5342, 1.680}},
	{"sticky", false, 2, {0.5251, 0.5624, 1.770}},
	{"llm-d", false, 2, {0.5276, 0.5605, 1.770}},
	{"dynamo", false, 2, {0.4945, 0.5340, 1.678}},
	{"round-robin", false, 3, {0.1071, 29.8934, 81.021}},
	{"price", false, 4, {0.5230, 6.5054, 10.944}},
	{"price", true, 4, {0.5265, 6.3596, 10.786}},
	{"sticky", true, 4, {0.5289, 6.1314, 10.442}},
	{"least", false, 4, {0.1019, 66.2599, 146.572}},
	{"greedy", false, 4, {0.4904, 8.3583, 13.784}},
	{"llm-d", false, 4, {0.5292, 6.1286, 10.440}},
	{"dynamo", false, 4, {0.4670, 13.6062, 22.692}},
	{0},
};

#endif /* KVSTEER_TESTS_SIM_CELLS_H */
