// SPDX-License-Identifier: Apache-2.0
// cuda_runtime_api.h -- the host's part of the emulator; the same as cuda_runtime.h.
#pragma once

#include "cuda_runtime.h"
