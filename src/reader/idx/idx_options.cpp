// SPDX-License-Identifier: Apache-2.0
// Options of the IDX reader.
#include "reader/idx/idx_source.h"
#include "reader/reader_row.h"

namespace tutti::reader {

void IdxStream::describe(config::Fields& f) {
  f.inherit_nothing("labelDim");  // makes this a stream of classes; further out it is meant for another
  f("file", file, "an IDX file, plain or gzip");
  f.required("file");
  f("labelDim", dim, "number of classes: the file holds class numbers and the stream is one-hot; 0 = plain numbers");
  f.alias("dim", "labelDim");
  f.choice("format", sparse, {{"dense", false}, {"sparse", true}}, "format of one-hot vectors");
  f("scale", scale, "factor on plain numbers; 0 = bytes to 0..1 (1/255), other types as they are");
  if (dim < 0) f.problem("labelDim", "labelDim is the number of classes", "10 for digits");
}

void IdxReaderOptions::describe(config::Fields& f) {
  f.blocks(
      "input", input,
      "one block per stream, under the name of the network's input; they may also stand in the reader block itself");
  order.describe(f);
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
}

Made read_idx(const config::Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<IdxReaderOptions>(context);
  std::vector<std::string> also{"readerType"};
  std::vector<std::pair<std::string, IdxStream>> streams;
  for (const std::string& key : block.keys()) {
    if (config::equal_keys(key, "input") || !block.is_block(key)) continue;
    also.push_back(key);
    read_block(streams.emplace_back(key, IdxStream()).second, block.block(key), key, context, {});
  }
  read_block(*o, block, title, context, also);
  o->input.insert(o->input.end(), streams.begin(), streams.end());
  if (o->input.empty())
    context.problems->add(
        Diagnostic{block.where(), "IDXReader has no streams",
                   "add a block for each, such as features = [ file = \"train-images-idx3-ubyte.gz\" ]"});
  for (const auto& [name, s] : o->input) {
    const bool direct = block.has_own(name) && block.is_block(name);
    check_file(direct ? block.block(name) : block.block("input").block(name), "file", s.file, context);
  }
  return made<IdxSource>(o, o->order.randomization());
}

}  // namespace tutti::reader
