/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Figures of the reference simulators, each the mean over several prefill rates: worked out by
 * sim_cells.py. Left out is where the two are meant to differ (docs/steering.md, "Is the simulator
 * right?").
 */
#ifndef KVSTEER_TESTS_SIM_CELLS_H
#define KVSTEER_TESTS_SIM_CELLS_H

#include <stdbool.h>

/*
 * One request placed otherwise sends the rest of a run down another path, so that a single run says
 * little: the reference's own hit rate moves by up to 1.4 points and its mean by 13 % with the rate
 * off by a thousandth. And rates that lie close together give the same run again. So each figure is
 * a mean over rates spread evenly over 16,000 tokens/s ± 8 %.
 */
#define RATE_FIRST 14720
#define RATE_LAST 17280
#define RATES_OF_SHORT 17
#define RATES_OF_WHOLE 9

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
	{"price", false, 1, {0.2279, 0.7154, 1.662}},
	{"sticky", false, 1, {0.2394, 0.7355, 1.704}},
	{"ttft", false, 1, {0.2246, 0.7153, 1.662}},
	{"price", true, 1, {0.2328, 0.7118, 1.661}},
	{"sticky", true, 1, {0.2420, 0.7318, 1.702}},
	{"ttft", true, 1, {0.2257, 0.7150, 1.662}},
	{"round-robin", false, 1, {0.0670, 1.1110, 2.706}},
	{"llm-d", false, 1, {0.2420, 0.7244, 1.687}},
	{"dynamo", false, 1, {0.2269, 0.7147, 1.664}},
	{"price", false, 3, {0.2316, 0.9849, 2.128}},
	{"sticky", false, 3, {0.2308, 1.0205, 2.215}},
	{"ttft", false, 3, {0.2078, 1.0523, 2.229}},
	{"price", true, 3, {0.2350, 0.9825, 2.122}},
	{"sticky", true, 3, {0.2370, 1.0082, 2.192}},
	{"ttft", true, 3, {0.2109, 1.0341, 2.200}},
	{"round-robin", false, 3, {0.0670, 5.7325, 13.558}},
	{"llm-d", false, 3, {0.2362, 1.0151, 2.220}},
	{"dynamo", false, 3, {0.2094, 1.0477, 2.218}},
	{"least", false, 1, {0.0691, 0.8536, 1.879}},
	{"greedy", false, 1, {0.1779, 0.9782, 2.236}},
	{"least", false, 2, {0.0733, 0.9411, 2.106}},
	{"llm-d", false, 2, {0.2413, 0.7926, 1.781}},
	{"price", false, 2, {0.2289, 0.7692, 1.726}},
	{"price", true, 2, {0.2310, 0.7672, 1.728}},
	{"least", false, 3, {0.0704, 1.8112, 3.461}},
	{"least", false, 4, {0.0745, 17.2299, 29.408}},
	{"greedy", false, 4, {0.2147, 18.3238, 26.339}},
	{"round-robin", false, 4, {0.0670, 20.9298, 40.291}},
	{"llm-d", false, 4, {0.2332, 4.1038, 6.487}},
	{"dynamo", false, 4, {0.2009, 6.2799, 9.456}},
	{"price", false, 4, {0.2392, 3.7279, 6.076}},
	{"sticky", false, 4, {0.2270, 4.3604, 6.789}},
	{"ttft", false, 4, {0.1979, 6.4401, 9.644}},
	{0},
};

static const struct cell of_short_synthetic[] = {
	{"llm-d", false, 1, {0.2063, 0.5969, 1.809}},
	{"dynamo", false, 1, {0.1970, 0.5965, 1.823}},
	{"price", false, 1, {0.2058, 0.5875, 1.790}},
	{"price", true, 1, {0.2058, 0.5876, 1.787}},
	{"sticky", false, 1, {0.2097, 0.5963, 1.811}},
	{"sticky", true, 1, {0.2099, 0.5938, 1.802}},
	{"ttft", false, 1, {0.2025, 0.5875, 1.789}},
	{"ttft", true, 1, {0.2045, 0.5865, 1.788}},
	{"llm-d", false, 3, {0.2107, 1.0009, 2.682}},
	{"price", false, 3, {0.2074, 0.9988, 2.684}},
	{"price", true, 3, {0.2080, 0.9945, 2.675}},
	{"sticky", false, 3, {0.2099, 1.0028, 2.677}},
	{"sticky", true, 3, {0.2102, 1.0003, 2.679}},
	{"ttft", true, 3, {0.1881, 1.0506, 2.796}},
	{"llm-d", false, 4, {0.2097, 7.6847, 10.876}},
	{"dynamo", false, 4, {0.1829, 8.9930, 12.118}},
	{"price", false, 4, {0.2074, 7.8046, 10.992}},
	{"sticky", false, 4, {0.2093, 7.6892, 10.878}},
	{"ttft", false, 4, {0.1817, 9.0578, 12.174}},
	{0},
};

static const struct cell of_conversation[] = {
	{"price", false, 1, {0.2369, 0.6322, 1.507}},
	{"sticky", false, 1, {0.2489, 0.6536, 1.562}},
	{"ttft", false, 1, {0.2305, 0.6332, 1.507}},
	{"price", true, 1, {0.2389, 0.6312, 1.503}},
	{"llm-d", false, 1, {0.2522, 0.6507, 1.554}},
	{"dynamo", false, 1, {0.2323, 0.6328, 1.512}},
	{"price", false, 3, {0.2435, 0.8539, 1.893}},
	{"sticky", false, 3, {0.2408, 0.8928, 1.988}},
	{"ttft", false, 3, {0.2105, 0.9169, 2.017}},
	{"price", true, 3, {0.2468, 0.8498, 1.893}},
	{"llm-d", false, 3, {0.2456, 0.8887, 1.985}},
	{"dynamo", false, 3, {0.2134, 0.9115, 2.013}},
	{"least", false, 1, {0.0748, 0.7622, 1.739}},
	{"price", false, 2, {0.2375, 0.6823, 1.584}},
	{"least", false, 3, {0.0778, 1.6122, 3.399}},
	{"price", false, 4, {0.2559, 3.5748, 6.076}},
	{"price", true, 4, {0.2577, 3.4023, 5.780}},
	{"sticky", false, 4, {0.2372, 7.0422, 11.167}},
	{"llm-d", false, 4, {0.2420, 6.0372, 9.564}},
	{"dynamo", false, 4, {0.2051, 15.5488, 25.891}},
	{0},
};

static const struct cell of_synthetic[] = {
	{"price", false, 1, {0.5144, 0.4847, 1.589}},
	{"sticky", false, 1, {0.5243, 0.5009, 1.653}},
	{"ttft", false, 1, {0.5086, 0.4847, 1.592}},
	{"price", true, 1, {0.5163, 0.4808, 1.584}},
	{"llm-d", false, 1, {0.5279, 0.4919, 1.635}},
	{"dynamo", false, 1, {0.5075, 0.4892, 1.625}},
	{"price", false, 3, {0.5192, 0.7748, 2.220}},
	{"sticky", false, 3, {0.5244, 0.8028, 2.258}},
	{"ttft", false, 3, {0.4834, 0.8883, 2.399}},
	{"price", true, 3, {0.5231, 0.7672, 2.208}},
	{"llm-d", false, 3, {0.5286, 0.7821, 2.223}},
	{"dynamo", false, 3, {0.4880, 0.8606, 2.360}},
	{"least", false, 1, {0.1030, 0.8710, 2.355}},
	{"price", false, 2, {0.5143, 0.5361, 1.697}},
	{"sticky", false, 2, {0.5250, 0.5652, 1.791}},
	{"llm-d", false, 2, {0.5261, 0.5621, 1.778}},
	{"dynamo", false, 2, {0.4946, 0.5374, 1.679}},
	{"round-robin", false, 3, {0.1071, 30.9410, 82.175}},
	{"price", false, 4, {0.5210, 7.5897, 13.024}},
	{"greedy", false, 1, {0.4848, 0.5203, 1.691}},
	{"greedy", false, 2, {0.4627, 0.6197, 1.882}},
	{"least", false, 3, {0.1068, 26.7622, 74.139}},
	{"sticky", false, 4, {0.5245, 7.4293, 12.832}},
	{"ttft", false, 4, {0.4656, 14.5700, 23.816}},
	{"price", true, 4, {0.5254, 7.3024, 12.700}},
	{"sticky", true, 4, {0.5281, 7.2599, 12.637}},
	{"least", false, 4, {0.1078, 66.5006, 146.612}},
	{"greedy", false, 4, {0.4869, 9.1053, 15.080}},
	{"llm-d", false, 4, {0.5288, 7.1837, 12.619}},
	{"dynamo", false, 4, {0.4726, 14.0784, 23.198}},
	{0},
};

#endif /* KVSTEER_TESTS_SIM_CELLS_H */
