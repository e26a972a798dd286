// SPDX-License-Identifier: BSD-2-Clause
#include "agent/agent.h"

const char agent_version[32] = KVSTEER_VERSION;
