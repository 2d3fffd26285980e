// SPDX-License-Identifier: Apache-2.0
// word_options.h -- the blocks of readerType = "LMSequenceReader" and "LUSequenceReader".
#pragma once

#include "reader/order_options.h"
#include "reader/reader_row.h"
#include "reader/words/word_source.h"

namespace tutti::reader {

// The block of the input words or of the labels.
struct WordBlock {
  enum class Type { category, next_word, none };
  Type type = Type::category;
  std::int64_t dim = 0;  // labelDim; 0 = as many as the list has
  std::string mapping, token, begin, end, mode = "plain";
  bool use_word_map = false;
  WordList list;             // where its words stand
  bool has_classes() const;  // LUSequenceReader: labels with classes
  void describe(config::Fields& f);
};

// What both readers have.
struct WordReaderOptions {
  bool tagged = false;  // LUSequenceReader
  std::string file, unknown = "<unk>";
  std::string features, input_name, label_name;  // names of the blocks
  WordBlock input, label;
  enum class Mode { classes, softmax, noise_contrastive } mode = Mode::classes;
  std::string word_classes, word_map;
  config::Schedule<std::int64_t> context = {{0}};
  config::Schedule<std::int64_t> sentences = {{1}};
  RandomizeOptions order;
  TruncationOptions truncation;
  std::int64_t max_errors = 0, trace_level = 0;

  void describe(config::Fields& f);
  void describe_settings(config::Fields& f);  // all but the blocks
  WordSourceOptions source() const;           // once the lists are known
  WordLabels label_form() const;
};

ReadBlock read_language_model, read_tagged_words;
void describe_language_model(config::Fields& f);
void describe_tagged_words(config::Fields& f);

}  // namespace tutti::reader
