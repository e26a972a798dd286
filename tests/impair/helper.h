/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the carrier sends. Out of an interface: by a packet socket that passes by the qdisc, and so
 * by our own program. Into it: nothing writes to the receiving side of an interface, so a veth pair
 * beside it has a program that redirects all that it gets.
 */
#ifndef KVSTEER_TESTS_IMPAIR_HELPER_H
#define KVSTEER_TESTS_IMPAIR_HELPER_H

/* Makes the pair; returns the interface to send by, or -errno. */
int helper_add(int ifindex, int prog);
void helper_remove(int ifindex);
int helper_socket(int ifindex);

#endif
