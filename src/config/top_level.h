// SPDX-License-Identifier: Apache-2.0
// top_level.h -- the settings outside all blocks: what to run, on which device, where to log.
#pragma once

#include <string>
#include <vector>

#include "tutti/config.h"

namespace tutti::config {

struct TopLevel {
  enum class Precision { float32, float64 };
  enum class Compute { float32, tf32, bfloat16, float16 };
  enum class Device { automatic, cpu, gpu };

  std::vector<std::string> command = {"train"};
  Precision precision = Precision::float32;
  Compute compute_type = Compute::float32;  // default of all commands
  std::string device_id = "auto";
  std::int64_t trace_level = 0;
  std::string log_file;
  bool append_log = false;
  bool timestamping = false;
  bool parallel_train = false;
  std::int64_t cpu_threads = 0;
  bool make_mode = true;
  bool deterministic = false;
  bool constant_seed = false;
  std::int64_t seed_offset = 0;
  bool progress_tracing = false;
  std::string done_file;
  double stall_timeout = 300, stall_warning = 30;

  void describe(Fields& f);
  Device device() const;  // what deviceId says
  int gpu_index() const;  // of Device::gpu
};

// stallTimeout and stallWarning, of the top level and of SGD.
void describe_stall_limits(Fields&, double& timeout, double& warning);

// `ranks`: number of processes that the launcher started; more than one turns parallelTrain on.
TopLevel read_top_level(const Record& top, int ranks, Problems&, Notices&);

// truncated=true in a reader needs truncated=true in SGD or in an enclosing block.
void check_truncated(const Record& command, Problems&, Notices&);

// The log file of this rank; empty = stderr.
std::string log_path(const TopLevel&, int rank);
// numCPUThreads on a machine with `cores`; 0 = chosen by the library.
int threads_to_use(std::int64_t wanted, int cores);

}  // namespace tutti::config
