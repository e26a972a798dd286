// SPDX-License-Identifier: BSD-2-Clause
#include "common/version.h"

const char kv_version[32] = KVSTEER_VERSION;
