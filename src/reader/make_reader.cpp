// SPDX-License-Identifier: Apache-2.0
// The reader table: the values of readerType, and the default. A new reader is a SequenceSource, an options struct and
// a row here.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reader/composite/composite_options.h"
#include "reader/hdf5/hdf5_options.h"
#include "reader/htk/htk_options.h"
#include "reader/idx/idx_options.h"
#include "reader/image/image_options.h"
#include "reader/libsvm/libsvm_options.h"
#include "reader/mapped_file.h"
#include "reader/prefetch_reader.h"
#include "reader/reader_row.h"
#include "reader/stream_dims.h"
#include "reader/synthetic/synthetic_options.h"
#include "reader/text/text_options.h"
#include "reader/uci/uci_options.h"
#include "reader/words/word_options.h"
#include "tutti/reader.h"

namespace tutti {
namespace reader {
namespace {

using config::Record;

struct Row {
  std::string name, help;
  std::function<void(config::Fields&)> describe;
  ReadBlock* read;
};

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return s;
}

Made read_text(const Record& block, const ReaderContext& context) {
  auto o = std::make_shared<TextReaderOptions>();
  o->order.shuffle = trains(context);
  o->trace_level = context.trace_level;
  config::read_fields(block, "CNTKTextFormatReader", [&](config::Fields& f) { o->describe(f); }, *context.problems,
                      *context.notices, {"readerType"});
  check_file(block, "file", o->file, context);
  return {[o](config::Fields& f) { o->describe(f); }, [o] { return std::make_unique<TextSource>(o->source()); },
          o->order.randomization(o->window), o->truncation.truncation(trains(context))};
}

Made read_idx_block(const Record& block, const ReaderContext& context) {
  auto o = std::make_shared<IdxReaderOptions>();
  o->order.shuffle = trains(context);
  std::vector<std::string> also{"readerType"};
  std::vector<std::pair<std::string, IdxStreamOptions>> streams;
  for (const std::string& key : block.keys()) {
    if (lower(key) == "input" || !block.is_block(key)) continue;
    also.push_back(key);
    streams.emplace_back(key,
                         config::read<IdxStreamOptions>(block.block(key), key, *context.problems, *context.notices));
  }
  config::read_fields(
      block, "IDXReader", [&](config::Fields& f) { o->describe(f); }, *context.problems, *context.notices, also);
  o->input.insert(o->input.end(), streams.begin(), streams.end());
  if (o->input.empty())
    context.problems->add(
        Diagnostic{block.where(), "IDXReader has no streams",
                   "add a block for each, such as features = [ file = \"train-images-idx3-ubyte.gz\" ]"});
  for (const auto& [name, s] : o->input) {
    const bool direct = block.has_own(name) && block.is_block(name);
    check_file(direct ? block.block(name) : block.block("input").block(name), "file", s.file, context);
  }
  return {[o](config::Fields& f) { o->describe(f); }, [o] { return std::make_unique<IdxSource>(o->streams()); },
          o->order.randomization()};
}

Made read_synthetic(const Record& block, const ReaderContext& context) {
  auto o = std::make_shared<SyntheticReaderOptions>();
  o->order.shuffle = trains(context);
  config::read_fields(block, "SyntheticReader", [&](config::Fields& f) { o->describe(f); }, *context.problems,
                      *context.notices, {"readerType"});
  return {[o](config::Fields& f) { o->describe(f); }, [o] { return o->source(); }, o->order.randomization(),
          o->truncation.truncation(trains(context))};
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {"CNTKTextFormatReader", "text files of |name value value ... lines, dense or sparse, with or without sequences",
       describe_defaults<TextReaderOptions>, read_text},
      {"IDXReader", "the binary files of MNIST, plain or gzip", describe_defaults<IdxReaderOptions>, read_idx_block},
      {"HDF5Reader", "HDF5 files with one row per sample or sequence, any number of them",
       describe_defaults<Hdf5ReaderOptions>, read_hdf5},
      {"HTKDeserializers", "speech: feature files of the HTK and master label files, frames or utterances",
       describe_htk_reader, read_htk_deserializers},
      {"HTKMLFReader", "the same under its old name", describe_htk_reader, read_htk_mlf},
      {"SyntheticReader", "made-up data: drawn digits to learn from, random numbers for speed runs",
       describe_defaults<SyntheticReaderOptions>, read_synthetic},
      {"ImageReader", "JPEG and PNG images with their labels from a map file, cropped and scaled by loader threads",
       describe_image_reader, read_image_reader},
      {"UCIFastReader", "columns of a text file or CSV file, one sample per line", describe_uci_reader, read_uci},
      {"LibSVMBinaryReader", "binary files of sparse features and dense labels, one sample per row",
       describe_defaults<LibsvmReaderOptions>, read_libsvm},
      {"LMSequenceReader", "text for language models: a sentence per line, the label of a word is the next one",
       describe_language_model, read_language_model},
      {"LUSequenceReader", "text with labels: a word and its label per line, sentences apart by blank lines",
       describe_tagged_words, read_tagged_words},
      {"CompositeDataReader", "streams from several files of different formats, joined by sequence key",
       describe_composite, read_composite},
  };
  return rows;
}

// The other readers of CNTK.
const std::vector<std::string>& absent() {
  static const std::vector<std::string> names = {"BinaryReader", "CNTKBinaryReader", "SparsePCReader", "DSSMReader",
                                                 "Kaldi2Reader"};
  return names;
}

const Row* find_row(const std::string& name) {
  for (const Row& row : table())
    if (lower(row.name) == lower(name)) return &row;
  return nullptr;
}

// The setting, or else the contents of the block: only a CompositeDataReader has deserializers.
std::string type_of(const Record& block) {
  if (const auto type = block.find("readerType")) return type->text;
  return block.has_own("deserializers") ? "CompositeDataReader" : "CNTKTextFormatReader";
}

void report_unknown(const config::Value& type, Problems& problems) {
  std::vector<std::string> have;
  for (const Row& row : table()) have.push_back(row.name);
  const std::string list = fmt::format("(readers: {})", fmt::join(have, ", "));
  for (const std::string& name : absent())
    if (lower(name) == lower(type.text)) {
      problems.add(Diagnostic{type.where, fmt::format("this version has no {}", name),
                              fmt::format("convert the data for one of its readers {}", list)});
      return;
    }
  const std::string near = nearest(type.text, have);
  problems.add(
      Diagnostic{type.where, fmt::format("there is no reader '{}'", type.text),
                 near.empty() ? fmt::format("choose one {}", list) : fmt::format("did you mean '{}'? {}", near, list)});
}

}  // namespace

std::optional<Diagnostic> unreadable_file(const Record& block, const std::string& key, const std::string& path) {
  if (path.empty()) return std::nullopt;  // said already
  const std::string why = unreadable(path);
  if (why.empty()) return std::nullopt;
  return Diagnostic{block.value(key).where, fmt::format("the data file '{}' cannot be read: {}", path, why),
                    "relative paths start at the directory in which the trainer was started"};
}
void check_file(const Record& block, const std::string& key, const std::string& path, const ReaderContext& context) {
  if (auto problem = unreadable_file(block, key, path)) context.problems->add(std::move(*problem));
}

}  // namespace reader

const std::vector<ReaderType>& reader_types() {
  static const std::vector<ReaderType> types = [] {
    std::vector<ReaderType> all;
    for (const auto& row : reader::table()) all.push_back({row.name, row.help, row.describe});
    return all;
  }();
  return types;
}

ReaderType effective_reader(const config::Record& block, const ReaderContext& context) {
  Problems problems;
  config::Notices notices;
  ReaderContext quiet = context;
  quiet.problems = &problems;
  quiet.notices = &notices;
  const reader::Row* row = reader::find_row(reader::type_of(block));
  if (!row) return {};
  return {row->name, row->help, row->read(block, quiet).describe};
}

std::unique_ptr<Reader> make_reader(const config::Record& block, const ReaderContext& given) {
  Problems problems;
  config::Notices notices;
  ReaderContext context = given;
  context.problems = &problems;
  if (!context.notices) context.notices = &notices;
  std::unique_ptr<Reader> reader;
  try {
    if (const reader::Row* row = reader::find_row(reader::type_of(block))) {
      const reader::Made made = row->read(block, context);
      if (problems.empty())
        reader = std::make_unique<reader::PrefetchReader>(
            reader::MinibatchMaker(made.source(), made.randomization, made.truncation, made.most_sequences));
    } else {
      reader::report_unknown(block.value("readerType"), problems);
    }
  } catch (const ConfigError& e) {
    problems.add(reader::with_place_of_dim(e, block));
  } catch (const Error& e) {  // a file that is there and is not what it should be
    problems.add(Diagnostic{block.where(), e.what(), {}});
  }
  if (!given.problems) {
    problems.throw_if_any();
  } else {
    try {
      problems.throw_if_any();
    } catch (const ConfigError& e) {
      given.problems->add(e);
    }
  }
  return reader;
}

}  // namespace tutti
