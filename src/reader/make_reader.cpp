// SPDX-License-Identifier: Apache-2.0
// The reader table: the values of readerType, and the default. A new reader is a SequenceSource, an options struct and
// a row here.
#include "reader/fault_budget.h"
#include "reader/hdf5/hdf5_source.h"
#include "reader/idx/idx_source.h"
#include "reader/libsvm/libsvm_source.h"
#include "reader/mapped_file.h"
#include "reader/prefetch_reader.h"
#include "reader/reader_row.h"
#include "reader/synthetic/synthetic_source.h"
#include "reader/text/text_source.h"
#include "tutti/reader.h"

namespace tutti {
namespace reader {
namespace {

using config::Record;

struct Row : ReaderType {
  ReadBlock* read;
};

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {{"CNTKTextFormatReader", "text files of |name value value ... lines, dense or sparse, with or without sequences",
        describe_defaults<TextReaderOptions>},
       read_text},
      {{"IDXReader", "the binary files of MNIST, plain or gzip", describe_defaults<IdxReaderOptions>}, read_idx},
      {{"HDF5Reader", "HDF5 files with one row per sample or sequence, any number of them",
        describe_defaults<Hdf5ReaderOptions>},
       read_hdf5},
      {{"HTKDeserializers", "speech: feature files of the HTK and master label files, frames or utterances",
        describe_htk_reader},
       read_htk},
      {{"HTKMLFReader", "the same under its old name", describe_htk_reader}, read_htk},
      {{"SyntheticReader", "made-up data: drawn digits to learn from, random numbers for speed runs",
        describe_defaults<SyntheticReaderOptions>},
       read_synthetic},
      {{"ImageReader", "JPEG and PNG images with their labels from a map file, cropped and scaled by loader threads",
        describe_image_reader},
       read_image_reader},
      {{"UCIFastReader", "columns of a text file or CSV file, one sample per line", describe_uci_reader}, read_uci},
      {{"LibSVMBinaryReader", "binary files of sparse features and dense labels, one sample per row",
        describe_defaults<LibsvmReaderOptions>},
       read_libsvm},
      {{"LMSequenceReader", "text for language models: a sentence per line, the label of a word is the next one",
        describe_language_model},
       read_words},
      {{"LUSequenceReader", "text with labels: a word and its label per line, sentences apart by blank lines",
        describe_tagged_words},
       read_words},
      {{"CompositeDataReader", "streams from several files of different formats, joined by sequence key",
        describe_composite},
       read_composite},
  };
  return rows;
}

// The other readers of CNTK.
constexpr const char* absent[] = {"BinaryReader", "CNTKBinaryReader", "SparsePCReader", "DSSMReader", "Kaldi2Reader"};

// The setting, or else the contents of the block: only a CompositeDataReader has deserializers.
std::string type_of(const Record& block) {
  if (const auto type = block.find("readerType")) return type->text;
  return block.has_own("deserializers") ? "CompositeDataReader" : "CNTKTextFormatReader";
}

void report_unknown(const config::Value& type, Problems& problems) {
  for (const char* name : absent)
    if (config::equal_keys(name, type.text)) {
      problems.add(
          Diagnostic{type.where, fmt::format("this version has no {}", name),
                     fmt::format("convert the data for one of its readers ({})", all_names(table(), "readers"))});
      return;
    }
  problems.add(Diagnostic{type.where, fmt::format("there is no reader '{}'", type.text),
                          other_names(table(), "readers", type.text)});
}

}  // namespace

Diagnostic unreadable_data(const SourcePos& where, const std::string& path, const std::string& why) {
  return {where, fmt::format("the data file '{}' cannot be read: {}", path, why),
          "relative paths start at the directory in which the trainer was started"};
}

void only_first_value(const config::Schedule<std::int64_t>& values, std::string_view key, std::string_view title,
                      const ReaderContext& context) {
  if (values.size() > 1)
    context.notices->lines.push_back(
        fmt::format("'{}' in {} has {} values, but only the first one, {}, is used in all epochs", key, title,
                    values.size(), values.at(0)));
}

bool check_file(const Record& block, const std::string& key, const std::string& path, const ReaderContext& context) {
  if (path.empty()) return false;  // said already
  const std::string why = unreadable(path);
  if (!why.empty()) context.problems->add(unreadable_data(block.value(key).where, path, why));
  return why.empty();
}

void note_no_effect(const Record& block, const std::string& key, const std::string& why, const std::string& fix,
                    const ReaderContext& context) {
  if (block.has_own(key))
    context.notices->add({block.value(key).where, fmt::format("{} has no effect {}", key, why), fix});
}

}  // namespace reader

const std::vector<ReaderType>& reader_types() {
  static const std::vector<ReaderType> types(reader::table().begin(), reader::table().end());
  return types;
}

ReaderType effective_reader(const config::Record& block, const ReaderContext& context) {
  Problems problems;
  config::Notices notices;
  ReaderContext quiet = context;
  quiet.problems = &problems;
  quiet.notices = &notices;
  const reader::Row* row = reader::find_row(reader::table(), reader::type_of(block));
  if (!row) return {};
  return {row->name, row->help, row->read(block, row->name, quiet).describe};
}

std::unique_ptr<Reader> make_reader(const config::Record& block, const ReaderContext& given) {
  Problems problems;
  config::Notices notices;
  ReaderContext context = given;
  context.problems = &problems;
  if (!context.notices) context.notices = &notices;
  std::unique_ptr<Reader> reader;
  try {
    if (const reader::Row* row = reader::find_row(reader::table(), reader::type_of(block))) {
      reader::Made made = row->read(block, row->name, context);
      if (context.action == "write") made.randomization.shuffle = false;  // whatever the block says, as in CNTK
      if (problems.empty() && block.has_own("truncationLength") && !block.boolean("truncated", false))
        reader::note_no_effect(block, "truncationLength", "without truncated", "truncated = true", context);
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
  try {
    problems.throw_if_any();
  } catch (const ConfigError& e) {
    if (!given.problems) throw;
    given.problems->add(e);
  }
  return reader;
}

}  // namespace tutti
