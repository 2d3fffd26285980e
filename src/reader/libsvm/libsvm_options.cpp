// SPDX-License-Identifier: Apache-2.0
// Options of the reader of binary files of sparse features.
#include "reader/libsvm/libsvm_options.h"

#include "reader/libsvm/libsvm_source.h"

namespace tutti::reader {
namespace {

// A stream of the file under another name.
struct RenameBlock {
  std::string name;
  void describe(config::Fields& f) {
    f("rename", name, "name of the network's input that receives the stream named by the block");
    f.no_effect("dim", "the file says how many numbers a stream has");
    f.no_effect("labelDim", "the file says how many numbers a stream has");
    f.no_effect("labelType", "labels are numbers as they stand in the file");
  }
};

}  // namespace

void LibsvmReaderOptions::describe(config::Fields& f) {
  f("file", file, "the binary file");
  f.required("file");
  order.describe(f);
  f("maxErrors", max_errors, "number of faulty samples to tolerate; they are skipped");
  f("traceLevel", trace_level, "0 = errors only, 1 = also warnings");
  f.no_effect("minibatch", "minibatches are formed independently of the batches in the file");
  f.no_effect("minibatchMode", "minibatches end with the sweep, which is partial");
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  f.no_effect("verbosity", "traceLevel decides what is shown");
  if (max_errors < 0) f.problem("maxErrors", "maxErrors is a count", "0 tolerates no error");
}

Made read_libsvm(const config::Record& block, const ReaderContext& context) {
  auto o = std::make_shared<LibsvmReaderOptions>();
  o->trace_level = context.trace_level;
  std::vector<std::string> also{"readerType"};
  for (const std::string& key : block.keys()) {
    if (!block.is_block(key)) continue;
    also.push_back(key);
    const auto b = config::read<RenameBlock>(block.block(key), key, *context.problems, *context.notices);
    if (!b.name.empty()) o->renamed[key] = b.name;
  }
  config::read_fields(
      block, "LibSVMBinaryReader", [&](config::Fields& f) { o->describe(f); }, *context.problems, *context.notices,
      also);
  check_file(block, "file", o->file, context);
  return {
      [o](config::Fields& f) { o->describe(f); },
      [o] {
        return std::make_unique<LibsvmSource>(LibsvmSourceOptions{o->file, o->renamed, o->max_errors, o->trace_level});
      },
      o->order.randomization(trains(context))};
}

}  // namespace tutti::reader
