// SPDX-License-Identifier: Apache-2.0
// word_source.h -- sentences of words for networks. LMSequenceReader: a sentence per line, the label of a word is the
// next one. LUSequenceReader: lines of words and a label, sentences end with a blank line or an end symbol. The text is
// read once; every rank keeps the numbers of all words, 4 bytes each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reader/fault_budget.h"
#include "reader/mapped_file.h"
#include "reader/order_options.h"
#include "reader/sequence_source.h"
#include "reader/words/vocabulary.h"

namespace tutti::reader {

// How a word is handed on as a label.
enum class WordLabels { none, one_hot, classes };  // classes: word, class, first word of the class, first behind it

struct WordList {
  std::string path;
  enum class Kind { class_file, words, words_with_classes } kind = Kind::words;
  std::string mapping = {};  // Vocabulary::map_words
  SourcePos where = {};      // in the configuration
};

Vocabulary read_list(const WordList&);

// The block of the input words or of the labels.
struct WordBlock {
  enum class Type { category, next_word, none };
  Type type = Type::category;
  // labelDim, which the list must have; 0 = as many as it has. An earlier command of the run may write the list, so it
  // is read with the text.
  std::int64_t dim = 0;
  std::string mapping, token, begin, end, mode = "plain";
  bool use_word_map = false;
  WordList list;             // where its words stand
  bool has_classes() const;  // LUSequenceReader: labels with classes
  void describe(config::Fields& f);
};

// What both readers have.
struct WordReaderOptions : DataLimits {
  bool tagged = false;  // LUSequenceReader
  std::string file, unknown = "<unk>";
  std::string features, input_name, label_name;  // names of the blocks; features may be empty
  WordBlock input, label;
  enum class Mode { classes, softmax, noise_contrastive } mode = Mode::classes;
  std::string word_classes, word_map;
  config::Schedule<std::int64_t> context = {{0}};  // which neighbours of a word the features are
  config::Schedule<std::int64_t> sentences = {{1}};
  RandomizeOptions order;
  TruncationOptions truncation;

  void describe(config::Fields& f);
  void describe_settings(config::Fields& f);  // all but the blocks
  WordLabels label_form() const;
};

// The streams of a text that is not here: for checks of everything else.
class AbsentWords final : public SequenceSource {
 public:
  explicit AbsentWords(const WordReaderOptions&);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return index_; }
  void read(std::span<const std::uint32_t>, Share&) override {}

 private:
  std::vector<StreamInfo> infos_;
  SequenceIndex index_;
};

class WordSource final : public SequenceSource {
 public:
  explicit WordSource(WordReaderOptions);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;
  void begin_epoch() override { file_.check_unchanged(); }
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string place(std::uint32_t sequence) override;

 private:
  // One step of a sentence: several words, which are all 1 in the features.
  struct Sentence {
    std::size_t line = 0;  // its first one
    std::vector<std::uint32_t> words, labels;
    std::vector<std::uint32_t> begin;  // of the words of each step and behind the last; empty: one each
  };
  // Both call keep() for each sentence of the text.
  void parse_language(std::string_view text);
  void parse_tagged(std::string_view text);
  void check_ends(const std::vector<std::string_view>& words, std::size_t number) const;
  void keep(const Sentence&);
  // The number of a word; counts an error where it has none and there is no unknown word either.
  std::optional<std::uint32_t> number(const Vocabulary&, std::string_view word, std::size_t line_number,
                                      std::string_view line);
  void fault(Diagnostic d) { budget_.fault(std::move(d)), ++dropped_; }
  std::shared_ptr<const Vocabulary> load(const WordBlock&, const char* what) const;
  void add_features(std::size_t sequence, StreamBuffer&) const;
  void add_label(std::uint32_t word, StreamBuffer&) const;

  const WordReaderOptions options_;
  const WordLabels label_form_;
  std::vector<StreamInfo> infos_;
  MappedFile file_;
  FaultBudget budget_;
  std::size_t dropped_ = 0;
  std::shared_ptr<const Vocabulary> words_, label_words_;
  SequenceIndex index_;
  std::vector<std::uint32_t> numbers_, labels_;  // of all steps
  std::vector<std::uint64_t> step_begin_;        // of a step's words in numbers_; empty: one each
  std::vector<std::uint64_t> begin_;             // of each sequence's steps, and behind the last
  std::vector<std::uint64_t> lines_;             // where each sequence begins
};

}  // namespace tutti::reader
