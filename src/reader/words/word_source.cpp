// SPDX-License-Identifier: Apache-2.0
// Sentences of words.
#include "reader/words/word_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "reader/lines.h"
#include "tutti/log.h"

namespace tutti::reader {
namespace {

std::vector<StreamInfo> streams_of(const WordReaderOptions& o) {
  std::vector<StreamInfo> infos;
  const auto words = static_cast<std::size_t>(o.input.dim), labels = static_cast<std::size_t>(o.label.dim);
  if (!o.features.empty()) infos.push_back({o.features, words * o.context.size(), true});
  if (o.label_form() == WordLabels::one_hot) infos.push_back({o.label_name, labels, true});
  if (o.label_form() == WordLabels::classes) infos.push_back({o.label_name, 4, false});
  return infos;
}

}  // namespace

AbsentWords::AbsentWords(const WordReaderOptions& options) : infos_(streams_of(options)) {}

Vocabulary read_list(const WordList& list) {
  if (list.kind == WordList::Kind::class_file) return Vocabulary::from_class_file(list.path);
  return Vocabulary::from_word_list(list.path, list.kind == WordList::Kind::words_with_classes);
}

WordSource::WordSource(WordReaderOptions options)
    : options_(std::move(options)),
      label_form_(options_.label_form()),
      infos_(streams_of(options_)),
      file_(options_.file),
      budget_(options_.file, options_.max_errors, options_.trace_level) {}

std::shared_ptr<const Vocabulary> WordSource::load(const WordBlock& block, const char* what) const {
  const WordList& list = block.list;
  if (const std::string why = unreadable(list.path); !why.empty())
    throw ConfigError(list.where, fmt::format("the word list '{}' cannot be read: {}", list.path, why),
                      list.kind == WordList::Kind::class_file ? "the action writeWordAndClass makes it; run it first"
                                                              : "it has one word per line");
  auto v = std::make_shared<Vocabulary>(read_list(list));
  if (v->size() != static_cast<std::size_t>(block.dim))
    throw ConfigError(
        list.where, fmt::format("'{}' has {} words, labelDim of the {} says {}", list.path, v->size(), what, block.dim),
        fmt::format("labelDim = {}", v->size()));
  if (!list.mapping.empty()) v->map_words(list.mapping, options_.unknown);
  return v;
}

const SequenceIndex& WordSource::index() {
  if (index_.sequences() > 0) return index_;
  words_ = load(options_.input, "input words");
  const WordList &list = options_.input.list, &other = options_.label.list;
  const bool same = list.path == other.path && list.kind == other.kind && list.mapping == other.mapping;
  if (label_form_ != WordLabels::none) label_words_ = same ? words_ : load(options_.label, "labels");
  if (label_form_ == WordLabels::classes && label_words_->classes() == 0)
    throw ConfigError({}, fmt::format("'{}' says nothing of classes", other.path),
                      "class labels need the classes of the words");
  begin_ = {0};
  file_.expect(MappedFile::Access::in_order);
  std::string_view text = file_.bytes();
  refuse_gzip(options_.file, text);
  text.remove_prefix(byte_order_mark_size(text));
  options_.tagged ? parse_tagged(text) : parse_language(text);
  file_.expect(MappedFile::Access::unknown);
  file_.release(file_.bytes().data(), file_.bytes().data() + file_.bytes().size());
  if (index_.sequences() == 0)
    throw ConfigError({}, fmt::format("{}: the file has no usable sentence", options_.file),
                      "see docs/readers/words.md");
  budget_.summarize(dropped_);
  return index_;
}

void WordSource::keep(const Sentence& s) {
  const std::size_t steps = s.begin.empty() ? s.words.size() : s.begin.size() - 1;
  if (index_.sequences() + 1 == SequenceIndex::most_sequences)
    throw Error(fmt::format("reading '{}': too many sentences", options_.file));
  // Once a step has several words, all of them have positions.
  if (!s.begin.empty() && step_begin_.empty())
    for (std::size_t i = 0; i <= begin_.back(); ++i) step_begin_.push_back(i);
  if (!step_begin_.empty())
    for (std::size_t t = 1; t <= steps; ++t)
      step_begin_.push_back(numbers_.size() + (s.begin.empty() ? t : s.begin[t]));
  numbers_.insert(numbers_.end(), s.words.begin(), s.words.end());
  labels_.insert(labels_.end(), s.labels.begin(), s.labels.end());
  begin_.push_back(begin_.back() + steps);
  lines_.push_back(s.line);
  index_.add(static_cast<std::uint32_t>(steps));
}

std::optional<std::uint32_t> WordSource::number(const Vocabulary& v, std::string_view word, std::size_t line_number,
                                                std::string_view line) {
  if (const auto n = v.find(word)) return n;
  if (const auto n = v.find(options_.unknown)) return n;
  fault({line_place(options_.file, line_number, line, static_cast<std::size_t>(word.data() - line.data()), word.size()),
         fmt::format("the word '{}' is not in the vocabulary, nor is the unknown word '{}'", word, options_.unknown),
         "unk = \"...\" names the word that stands for all others"});
  return {};
}

void WordSource::add_features(std::size_t sequence, StreamBuffer& out) const {
  const auto first = static_cast<std::int64_t>(begin_[sequence]),
             last = static_cast<std::int64_t>(begin_[sequence + 1]) - 1;
  for (std::int64_t t = first; t <= last; ++t) {
    for (std::size_t k = 0; k < options_.context.size(); ++k) {
      const auto step = static_cast<std::size_t>(std::clamp(t + options_.context.values[k], first, last));
      const std::uint64_t begin = step_begin_.empty() ? step : step_begin_[step],
                          end = step_begin_.empty() ? step + 1 : step_begin_[step + 1];
      // A word that comes twice in a step counts once.
      for (std::uint64_t i = begin; i < end; ++i) {
        if (std::find(numbers_.begin() + static_cast<std::ptrdiff_t>(begin),
                      numbers_.begin() + static_cast<std::ptrdiff_t>(i),
                      numbers_[i]) != numbers_.begin() + static_cast<std::ptrdiff_t>(i))
          continue;
        out.indices.push_back(static_cast<std::int32_t>(numbers_[i] + k * words_->size()));
        out.values.push_back(1.0f);
      }
    }
    out.end_sparse();
  }
}

void WordSource::add_label(std::uint32_t word, StreamBuffer& out) const {
  if (label_form_ == WordLabels::one_hot) return out.add_one_hot(word);
  const std::uint32_t c = label_words_->class_of(word);
  const Vocabulary::WordClass& range = label_words_->word_class(c);
  float* column = out.add_dense();
  column[0] = static_cast<float>(word), column[1] = static_cast<float>(c);
  column[2] = static_cast<float>(range.first), column[3] = static_cast<float>(range.last);
}

void WordSource::read(std::span<const std::uint32_t> sequences, Share& share) {
  for (const std::uint32_t s : sequences) {
    std::size_t stream = 0;
    if (!options_.features.empty()) add_features(s, share[stream++]);
    if (label_form_ != WordLabels::none)
      for (std::uint64_t t = begin_[s]; t < begin_[s + 1]; ++t) add_label(labels_[t], share[stream]);
    share.end_sequence(index_.samples_of(s));
  }
}

std::string WordSource::place(std::uint32_t sequence) { return fmt::format("{}:{}", options_.file, lines_[sequence]); }

// CNTK uses the text as it is; a user who forgot the symbols should know.
void WordSource::check_ends(const std::vector<std::string_view>& words, std::size_t number) const {
  const std::string &begin = options_.input.begin, &end = options_.input.end;
  if (options_.trace_level < 1) return;
  if (!begin.empty() && words.front() != begin)
    log::warning(fmt::format("{}:{}: the line does not begin with beginSequence '{}'; lines are taken as they are",
                             options_.file, number, begin));
  else if (!end.empty() && words.back() != end)
    log::warning(fmt::format("{}:{}: the line does not end with endSequence '{}'; lines are taken as they are",
                             options_.file, number, end));
}

void WordSource::parse_language(std::string_view text) {
  constexpr std::size_t shortest = 3;  // a word between the two symbols
  const bool labels = label_form_ != WordLabels::none;
  std::vector<std::string_view> split;
  Sentence sentence;
  std::size_t too_short = 0;
  bool first = true;
  each_line_of(text, [&](std::size_t line_number, std::size_t, std::string_view line) {
    split_words(line, split);
    if (split.size() < shortest) {
      too_short += split.empty() ? 0 : 1;
      return;
    }
    if (std::exchange(first, false)) check_ends(split, line_number);
    sentence.line = line_number;
    sentence.words.clear(), sentence.labels.clear();
    // Without labels the last word is an input, too.
    const std::size_t steps = labels ? split.size() - 1 : split.size();
    for (std::size_t t = 0; t < steps; ++t) {
      const auto word = number(*words_, split[t], line_number, line);
      const auto label = labels && word ? number(*label_words_, split[t + 1], line_number, line) : word;
      if (!word || !label) return;
      sentence.words.push_back(*word), sentence.labels.push_back(*label);
    }
    keep(sentence);
  });
  if (too_short > 0 && options_.trace_level > 0)
    log::warning(fmt::format("{}: {} line{} of fewer than {} words left out", options_.file, too_short,
                             too_short == 1 ? "" : "s", shortest));
}

void WordSource::parse_tagged(std::string_view text) {
  const std::string &end_word = options_.input.end, &end_label = options_.label.end;
  std::vector<std::string_view> split;
  Sentence sentence;
  bool good = true;
  const auto end_sentence = [&] {
    if (good && !sentence.begin.empty()) keep(sentence);
    sentence = {}, good = true;
  };
  const auto ends = [&](const std::vector<std::string_view>& words) {
    return (!end_label.empty() && words.back() == end_label) || (!end_word.empty() && words.front() == end_word);
  };
  each_line_of(text, [&](std::size_t line_number, std::size_t, std::string_view line) {
    split_words(line, split);
    if (split.empty()) return end_sentence();
    if (sentence.begin.empty()) sentence.begin = {0}, sentence.line = line_number;
    if (split.size() < 2) {
      fault({line_place(options_.file, line_number, line, 0, line.size()), "the line has a word and no label",
             "lines are: word [word ...] label"});
      good = false;
      if (ends(split)) end_sentence();
      return;
    }
    for (std::size_t i = 0; good && i + 1 < split.size(); ++i)
      if (const auto n = number(*words_, split[i], line_number, line))
        sentence.words.push_back(*n);
      else
        good = false;
    if (good && label_words_) {
      if (const auto n = number(*label_words_, split.back(), line_number, line))
        sentence.labels.push_back(*n);
      else
        good = false;
    }
    sentence.begin.push_back(static_cast<std::uint32_t>(sentence.words.size()));
    if (ends(split)) end_sentence();
  });
  end_sentence();
}

}  // namespace tutti::reader
