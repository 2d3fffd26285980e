// SPDX-License-Identifier: Apache-2.0
#include "actions/writer_block.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/text.h"

namespace tutti::actions {
namespace {

// The utterances that the reader's list names, 0 when that is not known.
std::size_t utterances_of_reader(const ActionContext& context) {
  if (!context.command.is_block("reader")) return 0;
  const config::Record reader = context.command.block("reader");
  for (const auto& key : reader.keys())
    if (reader.is_block(key) && reader.block(key).has_own("scpFile"))
      return read_output_list(reader.block(key).value("scpFile").text).size();
  return 0;
}

void check_list(const ActionContext& context, const config::Record& block, const HtkOutputOptions& o,
                std::size_t utterances) {
  const SourcePos where = block.value(block.has_own("scpFile") ? "scpFile" : "file").where;
  try {
    const std::size_t files = read_output_list(o.list).size();
    if (utterances > files)
      context.problems->add(Diagnostic{
          where, fmt::format("'{}' lists {} files, but the reader has {} utterances", o.list, files, utterances),
          "one output file per utterance, in the same order"});
  } catch (const Error& e) {
    context.problems->add(Diagnostic{where, e.what(), "the list holds one path of an output file per line"});
  }
}

}  // namespace

std::map<std::string, HtkOutputOptions> read_writer_block(const ActionContext& context,
                                                          const std::vector<std::string>& nodes) {
  std::map<std::string, HtkOutputOptions> outputs;
  const config::Record writer = context.command.block("writer");
  const std::string type = writer.string("writerType", "");
  if (!config::equal_keys(type, "HTKMLFWriter")) {
    const SourcePos where = writer.has_own("writerType") ? writer.value("writerType").where : writer.where();
    context.problems->add(Diagnostic{
        where, type.empty() ? "the writer block has no writerType" : fmt::format("there is no writer '{}'", type),
        "writerType = HTKMLFWriter, or outputPath instead of the writer block writes text"});
    return outputs;
  }
  if (nodes.empty()) {
    context.problems->add(Diagnostic{writer.where(), "a writer needs outputNodeNames",
                                     "outputNodeNames = node, and a block of that name in the writer"});
    return outputs;
  }
  std::size_t utterances = 0;
  try {
    utterances = utterances_of_reader(context);
  } catch (const Error&) {
    // The reader reports its list.
  }
  for (const auto& key : writer.keys()) {
    const bool node =
        std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) { return config::equal_keys(n, key); });
    if (!node && !config::equal_keys(key, "writerType"))
      context.notices->lines.push_back(fmt::format("'{}' in the writer block has no effect", key));
  }
  for (const auto& node : nodes) {
    if (!writer.has_own(node) || !writer.is_block(node)) {
      context.problems->add(Diagnostic{writer.where(), fmt::format("the writer has no block for the node '{}'", node),
                                       fmt::format("{} = [ dim = ... ; scpFile = ... ]", node)});
      continue;
    }
    const config::Record block = writer.block(node);
    const auto before = context.problems->count();
    outputs[node] = config::read<HtkOutputOptions>(block, node, *context.problems, *context.notices);
    if (context.problems->count() == before) check_list(context, block, outputs[node], utterances);
  }
  return outputs;
}

}  // namespace tutti::actions
