// SPDX-License-Identifier: Apache-2.0
// word_source.h -- sentences of words for networks: what LMSequenceReader and LUSequenceReader have in common. The text
// is read once; every rank keeps the numbers of all words, 4 bytes each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reader/fault_budget.h"
#include "reader/mapped_file.h"
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

struct WordSourceOptions {
  std::string reader;  // for messages
  std::string path;
  std::string features, labels;  // names of the streams; features may be empty
  WordList words, label_words;   // equal where both sides have the same words
  // What the lists must have; an earlier command of the run may write them, so they are read with the text.
  std::size_t words_dim = 0, labels_dim = 0;
  std::string unknown = "<unk>";
  WordLabels label_form = WordLabels::one_hot;
  std::vector<std::int64_t> context = {0};  // which neighbours of a word the features are
  std::int64_t max_errors = 0, trace_level = 0;
};

// The streams of a text that is not here: for checks of everything else.
class AbsentWords final : public SequenceSource {
 public:
  explicit AbsentWords(const WordSourceOptions&);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override { return index_; }
  void read(std::span<const std::uint32_t>, Share&) override {}

 private:
  std::vector<StreamInfo> infos_;
  SequenceIndex index_;
};

class WordSource : public SequenceSource {
 public:
  explicit WordSource(WordSourceOptions);
  const std::vector<StreamInfo>& streams() const override { return infos_; }
  const SequenceIndex& index() override;
  void begin_epoch() override { file_.check_unchanged(); }
  void read(std::span<const std::uint32_t> sequences, Share&) override;
  std::string place(std::uint32_t sequence) override;

 protected:
  // One step of a sentence: several words, which are all 1 in the features.
  struct Sentence {
    std::size_t line = 0;  // its first one
    std::vector<std::uint32_t> words, labels;
    std::vector<std::uint32_t> begin;  // of the words of each step and behind the last; empty: one each
  };
  // Calls keep() for each sentence of the text.
  virtual void parse(std::string_view text) = 0;
  void keep(const Sentence&);
  // The number of a word; counts an error where it has none and there is no unknown word either.
  std::optional<std::uint32_t> number(const Vocabulary&, std::string_view word, std::size_t line_number,
                                      std::string_view line);
  void fault(Diagnostic d) { budget_.fault(std::move(d)), ++dropped_; }

  const WordSourceOptions options_;
  const Vocabulary& words() const { return *words_; }
  const Vocabulary& label_words() const { return *label_words_; }

 private:
  std::shared_ptr<const Vocabulary> load(const WordList&, std::size_t dim, const char* what) const;
  void add_features(std::size_t sequence, StreamBuffer&) const;
  void add_label(std::uint32_t word, StreamBuffer&) const;

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

// LMSequenceReader: a sentence per line; the label of a word is the next one.
class LanguageModelSource : public WordSource {
 public:
  LanguageModelSource(WordSourceOptions, std::string begin, std::string end);

 private:
  void parse(std::string_view text) override;
  void check_ends(const std::vector<std::string_view>& words, std::size_t number) const;
  const std::string begin_, end_;
};

// LUSequenceReader: lines of words and a label; sentences end with a blank line or an end symbol.
class TaggedSource : public WordSource {
 public:
  TaggedSource(WordSourceOptions, std::string end_word, std::string end_label);

 private:
  void parse(std::string_view text) override;
  const std::string end_word_, end_label_;
};

}  // namespace tutti::reader
