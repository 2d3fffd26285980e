// SPDX-License-Identifier: Apache-2.0
// run_ranks.h -- run_ranks(n, [](Communicator& comm) { ... }): n ranks as threads of the test, first exception
// re-thrown.
#pragma once

#include "comm/threads.h"
