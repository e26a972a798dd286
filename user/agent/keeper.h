/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keeper: a process made by clone(CLONE_FILES) that does nothing but share the agent's table of
 * descriptors. Every socket that the agent opens or closes is in it, at no cost and without a
 * message. When the agent is dead, in whatever way, the keeper executes kvsteerd, which finds all
 * sockets open: the next agent. So a crash, a kill -9 and a restart are one path.
 *
 * A crash brings up the same program again (the one in memory, whatever has been put in its place
 * since); a restart brings up what is installed now, or is named.
 */
#ifndef AGENT_KEEPER_H
#define AGENT_KEEPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/config.h"

#define KEEPER_PATH 512
#define KEEPERS 2 /* one made later would have no more rights than an agent that serves */

/* Why this agent was started. */
enum keeper_why {
	KEEPER_FRESH,	/* by hand, or by the service manager with nothing kept */
	KEEPER_CRASH,	/* the agent before it has died */
	KEEPER_RESTART, /* … has ended to be followed */
	KEEPER_MANAGER, /* sockets came from the service manager */
};

struct keeper {
	pid_t pid[KEEPERS]; /* 0: none, or it has been killed */
	int agent_fd;	    /* readable when the agent is dead */
	char **argv;
	char path[KEEPER_PATH]; /* of the program, as installed */
	int failures;		/* agents in a row that died before they served */
	enum keeper_why why;	/* this agent was started */
	int config_fd;		/* the configuration of the agent before; -1: none */
	__u64 file;		/* … and what its file said, as a digest; 0: not known */
	int before_fd;		/* … and its program, until we serve; -1: none, or the same */
	const struct kv_config *config; /* … and of this one */
	bool path_fixed; /* the agent has fewer rights: it does not say what is executed */
	struct keeper_note *note;
};

/* Reads what the agent before has left in the environment; argv: this program's own. */
int keeper_open(struct keeper *keeper, char **argv);
/* A TCP socket: what outlives an agent. May be called where only async-signal-safe calls may be. */
bool keeper_keeps(int fd);
/* Makes the keeper, and a spare one that acts if the first has been killed. Prints what fails. */
int keeper_start(struct keeper *keeper, const struct kv_config *config);
/* Whether one has been killed; whether there is any. */
bool keeper_reap(struct keeper *keeper);
bool keeper_lives(const struct keeper *keeper);
/* What the next agent is to know after a crash: what of the configuration in force may be changed
 * while an agent runs, and what the watched file says. */
void keeper_tell(struct keeper *keeper, const struct kv_config *config, __u64 file);
/* From here on a death of the agent is no failure to start. */
void keeper_serving(struct keeper *keeper);
/* The agent ends, or dies over that: the keeper then ends too. */
void keeper_ending(struct keeper *keeper);
/* The agent is going to end to be followed: by this program, NULL: the one installed. */
void keeper_restart(struct keeper *keeper, const char *path);

#endif
