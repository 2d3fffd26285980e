// SPDX-License-Identifier: Apache-2.0
// write_actions.h -- the actions that write on rank 0: write (node values per sample) and dumpNode (parameters).
#pragma once

#include "actions/action.h"
#include "actions/writer_block.h"
#include "train/text_output.h"
#include "tutti/backend.h"

namespace tutti::actions {

struct WriteOptions {
  ComputeType compute_type = ComputeType::float32;
  std::string model_path;
  std::vector<std::string> output_node_names;
  std::string output_path;
  config::Schedule<std::int64_t> minibatch_size = 2048;
  std::int64_t epoch_size = 0;
  std::int64_t trace_level = 0;
  OutputFormat format;
  std::map<std::string, HtkOutputOptions> writers;  // by node; empty for text
  void describe(config::Fields&);
};
struct DumpNodeOptions {
  std::string model_path, node_name = "__AllNodes__", node_name_regex, output_file;
  bool print_values = true, print_metadata = true;
  void describe(config::Fields&);
};

std::unique_ptr<Action> make_write_action(const ActionContext&);
std::unique_ptr<Action> make_dump_node_action(const ActionContext&);

}  // namespace tutti::actions
