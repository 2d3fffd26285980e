// SPDX-License-Identifier: Apache-2.0
// tests.h -- what most tests include, compiled once for all of them. Tests still include what they use: without
// precompiled headers (-Db_pch=false, and with ccache) nobody sees this file.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
