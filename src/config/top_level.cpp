// SPDX-License-Identifier: Apache-2.0
// The table of top-level settings and the rules between them.
#include "config/top_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

#include "config/text.h"

namespace tutti::config {
namespace {

// Keys of inner blocks that users write at the top for all of them, and words the command line takes.
const std::vector<std::string> inherited_keys = [] {
  std::istringstream words(
      "configFile currentDirectory action modelPath minibatchSize epochSize SGD reader cvReader "
      "BrainScriptNetworkBuilder SimpleNetworkBuilder outputPath outputNodeNames evalNodeNames truncated lossScale "
      "cudaGraphs kernelChoices maxEpochs randomize");
  return std::vector<std::string>(std::istream_iterator<std::string>(words), {});
}();

bool parse_index(const std::string& text, int& index) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc{} && end == text.data() + text.size() && index >= -1;
}

}  // namespace

void TopLevel::describe(Fields& f) {
  f("command", command, "command blocks to run, in order: Train:Test");
  f.choice("precision", precision, {{"float", Precision::float32}, {"double", Precision::float64}},
           "number type of the model; double is accepted and computes in float32");
  f.choice("computeType", compute_type,
           {{"float32", Compute::float32},
            {"tf32", Compute::tf32},
            {"bfloat16", Compute::bfloat16},
            {"float16", Compute::float16}},
           "number type of matrix products and convolutions; weights, sums and all other operations are float32");
  f("deviceId", device_id, "cpu, auto, or the index of a GPU; -1 is cpu");
  f("traceLevel", trace_level, "verbosity of the log");
  f("stderr", log_file, "log file; missing directories are created");
  f("appendLogFile", append_log, "append to the log file; a resumed run always appends");
  f("timestamping", timestamping, "prefix each log line with the time");
  f("parallelTrain", parallel_train, "train on all ranks together; switched on automatically under mpiexec");
  f("numCPUThreads", cpu_threads, "threads per rank; 0 = automatic, -n = all cores except n");
  f("makeMode", make_mode, "resume from the newest checkpoint, and do nothing when the final model exists");
  f("forceDeterministicAlgorithms", deterministic, "use one thread and a fixed order in every sum");
  f("forceConstantRandomSeed", constant_seed, "give every random parameter seed 1");
  f("randomSeedOffset", seed_offset, "added to the seeds of random parameters that have no randomSeed");
  f("progressTracing", progress_tracing, "print PROGRESS and EVALERR lines to stdout");
  f("doneFile", done_file, "file to write when all commands have finished");
  describe_stall_limits(f, stall_timeout, stall_warning);
  for (const char* key : {"shareNodeValueMatrices", "optimizeGradientAccumulation", "hyperCompressMemory"})
    f.no_effect(key, "memory is planned and shared before the first step");
  for (const char* key : {"lockGPU", "excludedDevices", "traceGPUMemoryAllocations"})
    f.no_effect(key, "devices are taken as they are assigned");
  for (const char* key : {"profilerEnabled", "profilerBufferSize", "profilerSyncGpu"})
    f.no_effect(key, "timings of each epoch are in the log");

  int index = 0;
  const std::string id = to_lower(device_id);
  if (id != "cpu" && id != "auto" && !parse_index(id, index))
    f.problem("deviceId", fmt::format("'deviceId' cannot be '{}'", device_id),
              "write cpu, auto, or the index of a GPU such as 0");
  if (seed_offset < 0)
    f.problem("randomSeedOffset", "'randomSeedOffset' cannot be negative", "write 0 or more, such as 100");
  if (command.empty()) f.problem("command", "'command' names no command", "write command = Train, the name of a block");
}

void describe_stall_limits(Fields& f, double& timeout, double& warning) {
  f("stallTimeout", timeout,
    "seconds after which a rank that is dead, frozen, cut off or makes no progress ends the run with its name");
  f("stallWarning", warning, "seconds after which a warning names such a rank");
  for (const auto& [key, value] : {std::pair("stallTimeout", timeout), std::pair("stallWarning", warning)})
    if (!(value > 0 && std::isfinite(value)))
      f.problem(key, fmt::format("{} must be a number of seconds above 0", key), "write 300 for five minutes");
  if (timeout > 0 && timeout < 2)
    f.problem("stallTimeout", "ranks are heard of every half a second, so a stallTimeout below 2 ends healthy runs",
              "write 300 for five minutes");
}

TopLevel::Device TopLevel::device() const {
  const std::string id = to_lower(device_id);
  if (id == "auto") return Device::automatic;
  return id == "cpu" || id == "-1" ? Device::cpu : Device::gpu;
}

int TopLevel::gpu_index() const {
  int index = 0;
  parse_index(device_id, index);
  return std::max(index, 0);
}

TopLevel read_top_level(const Record& top, int ranks, Problems& problems, Notices& notices) {
  TopLevel t;
  t.parallel_train = ranks > 1;
  if (top.is_block("parallelTrain"))
    throw ConfigError(top.block("parallelTrain").where(),
                      "the block 'ParallelTrain' belongs in SGD; at the top level 'parallelTrain' is true or false",
                      "write Train=[SGD=[ParallelTrain=[...]]], with the name of your command for Train");
  read_open_fields(
      top, "the configuration", [&](Fields& f) { t.describe(f); }, problems, notices, inherited_keys);
  if (const auto type = top.find_own("type"))
    problems.add(
        Diagnostic{type->where, "'type' is the old name of 'precision' and is refused", "write precision = float"});
  if (t.precision == TopLevel::Precision::float64)
    notices.lines.push_back("precision = double: Tutti computes in float32");
  return t;
}

void check_truncated(const Record& command, Problems& problems, Notices& notices) {
  try {
    if (!command.is_block("SGD")) return;
    const Record sgd = command.block("SGD");
    const bool in_sgd = sgd.boolean("truncated", false);
    for (const char* key : {"reader", "cvReader"}) {
      if (!command.is_block(key)) continue;
      const Record reader = command.block(key);
      const bool in_reader = reader.boolean("truncated", false);
      if (const auto own = reader.find_own("truncated"); own && in_reader && !in_sgd)
        problems.add(Diagnostic{own->where, fmt::format("'{}' reads truncated sequences, but SGD is not told so", key),
                                "write truncated = true in SGD too, or once in the block around both"});
      if (in_sgd && !in_reader && sgd.has_own("truncated"))
        notices.lines.push_back(
            fmt::format("truncated of SGD has no effect on '{}', which reads whole sequences: it needs truncated = "
                        "true, too",
                        key));
    }
  } catch (const ConfigError& e) {
    problems.add(e);
  }
}

std::string log_path(const TopLevel& t, int rank) {
  if (t.log_file.empty()) return {};
  if (!t.timestamping) return rank == 0 ? t.log_file : fmt::format("{}.rank{}", t.log_file, rank);
  std::string path = t.log_file;
  for (const auto& c : t.command) path += "_" + c;
  return path + ".log" + (t.parallel_train ? fmt::format("rank{}", rank) : "");
}

int threads_to_use(std::int64_t wanted, int cores) {
  if (wanted == 0) return 0;
  if (wanted > 0) return static_cast<int>(std::min<std::int64_t>(wanted, cores));
  return static_cast<int>(std::max<std::int64_t>(1, cores + std::max<std::int64_t>(wanted, -cores)));
}

}  // namespace tutti::config
