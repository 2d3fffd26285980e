// SPDX-License-Identifier: Apache-2.0
// Options of the readers of HTK data. The old reader and the new one read alike; they differ in how truncated lanes are
// asked for.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "reader/htk/htk_source.h"
#include "reader/reader_row.h"

namespace tutti::reader {

void HtkFeatureOptions::describe(config::Fields& f) {
  f("scpFile", scp, "script file: a list of utterances, [name=]file[firstFrame,lastFrame]");
  f.required("scpFile");
  f("dim", dim, "numbers of a sample: of a frame times the frames of its context");
  f.required("dim");
  f("contextWindow", context, "frames of a sample: an odd number, or L:R neighbours; by dim when not given");
  f("prefixPathInSCP", prefix, "put in front of relative paths of the list");
  f("expandToUtterance", expands, "the utterance has one frame here, which holds for all frames of the other streams");
  f.no_effect("type", "features are real numbers");
  f.alias("expandToPrimary", "expandToUtterance");
  f.no_effect("definesMBSize", "a sequence counts as many samples as its longest stream has");
  if (f.given("dim") && (dim < 1 || dim > 2'147'483'647))
    f.problem("dim", "dim is the number of values per sample", "1 or more");
  const auto& c = context.values;
  if (c.size() > 2 || (c.size() == 1 && (c[0] < 1 || c[0] % 2 == 0)) ||
      std::any_of(c.begin(), c.end(), [](auto n) { return n < 0; }))
    f.problem("contextWindow", "a context is an odd number of frames, or L:R neighbours", "11, or 5:5");
}

void HtkLabelOptions::describe(config::Fields& f) {
  f("mlfFile", files, "master label file, or several");
  f("mlfFileList", list, "or a text file with one path of such a file per line");
  f("labelMappingFile", mapping,
    "file with one state name per line, whose number is the class; without it the fourth column is the class, or else "
    "the state is");
  f("labelDim", dim, "number of classes");
  f.alias("dim", "labelDim");
  f.required("labelDim");
  f("labelType", type, "category");
  f.no_effect("scpFile", "the labels of an utterance are found by its name");
  f.choice("format", sparse, {{"sparse", true}, {"dense", false}}, "format of one-hot vectors");
  if (f.given("mlfFile") == f.given("mlfFileList"))
    f.problem("mlfFile", "give exactly one of mlfFile and mlfFileList", "mlfFile = \"train.mlf\"");
  if (!config::equal_keys(type, "category"))
    f.problem("labelType", fmt::format("labels of type '{}' are not known", type), "labelType = \"category\"");
  if (f.given("labelDim") && (dim < 1 || dim > 2'147'483'647))
    f.problem("labelDim", "labelDim is the number of classes", "1 or more");
}

void HtkReaderOptions::describe(config::Fields& f) {
  for (auto& [name, b] : features) f.block(name, b, "a stream of features");
  for (auto& [name, b] : labels) f.block(name, b, "a stream of labels");
  f("frameMode", frame_mode, "every frame is a sample of its own; false: an utterance is a sequence");
  order.describe(f);
  f("readMethod", method, "blockRandomize, rollingWindow (the same here), or none for the order of the list");
  f("maxUtteranceLength", longest, "with frameMode = false: utterances with more frames are skipped, with a warning");
  f(sequences_key, lanes,
    "of HTKMLFReader: utterances of a minibatch, whatever their lengths; 0 or absent = as many as minibatchSize "
    "frames; "
    "with truncated: lanes of minibatchSize steps");
  truncation.describe(f);
  describe_faults(f, "number of faulty utterances to tolerate; they are skipped");
  describe_keep(f, "keep features in memory for later sweeps, up to this size per rank");
  f.no_effect("miniBatchMode", "minibatches end with the sweep, which is partial");
  f.no_effect("useMersenneTwisterRand", "it is always used");
  f.no_effect("minimizeReaderMemoryFootprint", "keepLimitInBytes decides how much is kept");
  f.no_effect("multiThreadedDeserialization", "one thread reads ahead");
  f.no_effect("pageFilePath", "no page file is made");
  f.no_effect("prefetch", "the next minibatches are always prepared in the background");
  f.no_effect("verbosity", "traceLevel decides what is shown");
  if (frame_mode && truncation.truncated)
    f.problem("truncated", "single frames cannot be cut", "write frameMode = false too");
  const std::string m = config::to_lower(method);
  if (m != "blockrandomize" && m != "rollingwindow" && m != "none")
    f.problem("readMethod", fmt::format("there is no readMethod '{}'", method), "blockRandomize or none");
  if (longest < 1) f.problem("maxUtteranceLength", "a length has at least one frame", "10000");
  if (!lanes.empty() && std::any_of(lanes.values.begin(), lanes.values.end(), [](auto n) { return n < 0; }))
    f.problem(sequences_key, "a number of sequences is not negative", "1");
}

Randomization HtkReaderOptions::randomization(bool training) const {
  Randomization r = order.randomization(training);
  if (config::equal_keys(method, "none")) r.shuffle = false;
  return r;
}

namespace {

void check_files(const config::Record& block, const HtkLabelOptions& b, const ReaderContext& context) {
  if (!b.list.empty()) check_file(block, "mlfFileList", b.list, context);
  if (!b.mapping.empty()) check_file(block, "labelMappingFile", b.mapping, context);
  for (const std::string& path : b.files) check_file(block, "mlfFile", path, context);
}

// The action `write` takes utterance by utterance, and all of them.
void take_whole_utterances(HtkReaderOptions& o, const ReaderContext& context) {
  if (context.action != "write") return;
  o.frame_mode = false;
  o.longest = std::numeric_limits<std::int64_t>::max();
}

// Blocks of sequence training over lattices, which this version does not have.
bool is_of_lattices(const config::Record& block) {
  constexpr std::array<const char*, 9> keys = {"phoneFile",     "transPFile",       "hmmFile",
                                               "denLatTocFile", "numLatTocFile",    "latticeTocFile",
                                               "denLatPrefix",  "latticeIndexFile", "tocFile"};
  return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return block.has_own(key); });
}

void check_files(const config::Record& block, const HtkFeatureOptions& b, const ReaderContext& context) {
  check_file(block, "scpFile", b.scp, context);
}

// Finds the streams among the blocks.
void find_streams(HtkReaderOptions& o, const config::Record& block, const ReaderContext& context,
                  const std::string& title, std::vector<std::string>& also) {
  for (const std::string& key : block.keys()) {
    if (!block.is_block(key)) continue;
    const config::Record stream = block.block(key);
    also.push_back(key);
    if (stream.has_own("scpFile")) {
      o.features.emplace_back(key, HtkFeatureOptions());
    } else if (stream.has_own("mlfFile") || stream.has_own("mlfFileList")) {
      o.labels.emplace_back(key, HtkLabelOptions());
    } else if (is_of_lattices(stream)) {
      context.problems->add(Diagnostic{stream.where(),
                                       fmt::format("this version has no sequence training over lattices ('{}')", key),
                                       "leave the block out and train frame by frame, with CrossEntropyWithSoftmax"});
    } else {
      context.problems->add(Diagnostic{
          stream.where(), fmt::format("'{}' has neither scpFile nor mlfFile: it is no stream of a {}", key, title),
          "features have scpFile, labels have mlfFile or mlfFileList"});
    }
  }
}

}  // namespace

Made read_htk(const config::Record& block, const std::string& title, const ReaderContext& context) {
  const bool old = title == "HTKMLFReader";
  const auto o = new_options<HtkReaderOptions>(context);
  std::vector<std::string> also{"readerType"};
  find_streams(*o, block, context, title, also);
  o->truncation.needs_length = !old;
  read_block(*o, block, title, context, also);
  for (const auto& [name, b] : o->features) check_files(block.block(name), b, context);
  for (const auto& [name, b] : o->labels) check_files(block.block(name), b, context);
  if (o->features.empty() && o->labels.empty())
    context.problems->add(Diagnostic{block.where(), fmt::format("{} has no streams", title),
                                     "add features = [ scpFile = ... ; dim = ... ]"});
  if (o->frame_mode && context.action != "write")
    note_no_effect(block, "maxUtteranceLength", "on single frames", "frameMode = false", context);
  take_whole_utterances(*o, context);
  // The old reader has as many lanes as it is told, each of minibatchSize steps.
  Truncation truncation;
  if (old && o->truncation.truncated && o->truncation.length == 0 && trains(context))
    truncation.lanes = std::max<std::int64_t>(1, o->lanes.at(0));
  if (truncation.lanes == 0) truncation = o->truncation.truncation(trains(context));
  Made reader = made<HtkSource>(o, o->randomization(trains(context)), truncation);
  const bool written = block.has(sequences_key), whole = !o->frame_mode && !o->truncation.truncated;
  if (old && whole && written && trains(context)) reader.most_sequences = o->lanes.at(0);
  if (block.has_own(sequences_key) && trains(context)) {
    if (!old || o->frame_mode || truncation.length > 0)
      context.notices->lines.push_back(fmt::format(
          "'{}' in {} has no effect here because {}", sequences_key, title,
          o->frame_mode ? "every frame is a separate sample" : "minibatchSize decides how many sequences there are"));
    else
      only_first_value(o->lanes, sequences_key, title, context);
  }
  return reader;
}

void describe_htk_reader(config::Fields& f) {
  HtkReaderOptions o;
  o.features.emplace_back("features", HtkFeatureOptions());
  o.labels.emplace_back("labels", HtkLabelOptions());
  o.describe(f);
}

namespace {

template <class Stream>
struct DeserializerOptions : HtkReaderOptions {
  static constexpr bool of_features = std::is_same_v<Stream, HtkFeatureOptions>;
  DeserializerOptions() { frame_mode = false, longest = 0; }
  auto& input() {
    if constexpr (of_features) {
      return features;
    } else {
      return labels;
    }
  }
  void describe(config::Fields& f) {
    f.blocks("input", input(), "one block per stream, under the name of the network's input");
    f.required("input");
    f("frameMode", frame_mode, "every frame is a sample of its own");
    describe_faults(f, "number of faulty utterances to tolerate; they are skipped");
    describe_keep(f, "keep features in memory for later sweeps, up to this size per rank");
    f.no_effect("module", "all deserializers are built in");
    if (f.given("input") && input().empty())
      f.problem("input", "no stream is described", "input = [ features = [ ... ] ]");
    if constexpr (of_features)
      if (!features.empty() && std::all_of(features.begin(), features.end(), [](auto& i) { return i.second.expands; }))
        f.problem("input", "expandToUtterance takes its lengths from another stream of the same deserializer",
                  "put the streams into one deserializer");
  }
};

template <class Stream>
Made read_deserializer(const config::Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<DeserializerOptions<Stream>>(context);
  read_block(*o, block, title, context, {"type"});
  for (const auto& [name, b] : o->input()) check_files(block.block("input").block(name), b, context);
  take_whole_utterances(*o, context);
  return made<HtkSource>(o);
}

}  // namespace

Made read_htk_features(const config::Record& block, const std::string& title, const ReaderContext& context) {
  return read_deserializer<HtkFeatureOptions>(block, title, context);
}
Made read_htk_labels(const config::Record& block, const std::string& title, const ReaderContext& context) {
  return read_deserializer<HtkLabelOptions>(block, title, context);
}

void describe_htk_features(config::Fields& f) { DeserializerOptions<HtkFeatureOptions>().describe(f); }
void describe_htk_labels(config::Fields& f) { DeserializerOptions<HtkLabelOptions>().describe(f); }

}  // namespace tutti::reader
