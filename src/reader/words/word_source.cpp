// SPDX-License-Identifier: Apache-2.0
// Sentences of words.
#include "reader/words/word_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/log.h"

namespace tutti::reader {
namespace {

// Calls f(line number, line) for each line.
template <class F>
void each_line_of(std::string_view text, const F& f) {
  std::size_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    f(number, text.substr(at, end - at));
    at = end + 1;
  }
}

std::vector<StreamInfo> streams_of(const WordSourceOptions& o) {
  std::vector<StreamInfo> infos;
  if (!o.features.empty()) infos.push_back({o.features, o.words_dim * o.context.size(), true});
  if (o.label_form == WordLabels::one_hot) infos.push_back({o.labels, o.labels_dim, true});
  if (o.label_form == WordLabels::classes) infos.push_back({o.labels, 4, false});
  return infos;
}

}  // namespace

AbsentWords::AbsentWords(const WordSourceOptions& options) : infos_(streams_of(options)) {}

Vocabulary read_list(const WordList& list) {
  if (list.kind == WordList::Kind::class_file) return Vocabulary::from_class_file(list.path);
  return Vocabulary::from_word_list(list.path, list.kind == WordList::Kind::words_with_classes);
}

WordSource::WordSource(WordSourceOptions options)
    : options_(std::move(options)),
      infos_(streams_of(options_)),
      file_(options_.path),
      budget_(options_.path, options_.max_errors, options_.trace_level) {}

std::shared_ptr<const Vocabulary> WordSource::load(const WordList& list, std::size_t dim, const char* what) const {
  if (const std::string why = unreadable(list.path); !why.empty())
    throw ConfigError(list.where, fmt::format("the word list '{}' cannot be read: {}", list.path, why),
                      list.kind == WordList::Kind::class_file ? "the action writeWordAndClass makes it; run it first"
                                                              : "it has one word per line");
  auto v = std::make_shared<Vocabulary>(read_list(list));
  if (v->size() != dim)
    throw ConfigError(list.where,
                      fmt::format("'{}' has {} words, labelDim of the {} says {}", list.path, v->size(), what, dim),
                      fmt::format("labelDim = {}", v->size()));
  if (!list.mapping.empty()) v->map_words(list.mapping, options_.unknown);
  return v;
}

const SequenceIndex& WordSource::index() {
  if (index_.sequences() > 0) return index_;
  words_ = load(options_.words, options_.words_dim, "input words");
  const bool same = options_.words.path == options_.label_words.path &&
                    options_.words.kind == options_.label_words.kind &&
                    options_.words.mapping == options_.label_words.mapping;
  if (options_.label_form != WordLabels::none)
    label_words_ = same ? words_ : load(options_.label_words, options_.labels_dim, "labels");
  if (options_.label_form == WordLabels::classes && label_words_->classes() == 0)
    throw ConfigError({}, fmt::format("'{}' says nothing of classes", options_.label_words.path),
                      "class labels need the classes of the words");
  begin_ = {0};
  file_.expect(MappedFile::Access::in_order);
  parse(file_.bytes());
  file_.expect(MappedFile::Access::unknown);
  file_.release(file_.bytes().data(), file_.bytes().data() + file_.bytes().size());
  if (index_.sequences() == 0)
    throw ConfigError({}, fmt::format("{}: the file has no usable sentence", options_.path),
                      "see docs/readers/words.md");
  budget_.summarize(dropped_);
  return index_;
}

void WordSource::keep(const Sentence& s) {
  const std::size_t steps = s.begin.empty() ? s.words.size() : s.begin.size() - 1;
  if (index_.sequences() + 1 == SequenceIndex::most_sequences)
    throw Error(fmt::format("reading '{}': too many sentences", options_.path));
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
  fault({line_place(options_.path, line_number, line, static_cast<std::size_t>(word.data() - line.data()), word.size()),
         fmt::format("the word '{}' is not in the vocabulary, nor is the unknown word '{}'", word, options_.unknown),
         "unk = \"...\" names the word that stands for all others"});
  return {};
}

void WordSource::add_features(std::size_t sequence, StreamBuffer& out) const {
  const auto first = static_cast<std::int64_t>(begin_[sequence]),
             last = static_cast<std::int64_t>(begin_[sequence + 1]) - 1;
  for (std::int64_t t = first; t <= last; ++t) {
    for (std::size_t k = 0; k < options_.context.size(); ++k) {
      const auto step = static_cast<std::size_t>(std::clamp(t + options_.context[k], first, last));
      const std::uint64_t begin = step_begin_.empty() ? step : step_begin_[step],
                          end = step_begin_.empty() ? step + 1 : step_begin_[step + 1];
      // A word that comes twice in a step counts once.
      for (std::uint64_t i = begin; i < end; ++i) {
        if (std::find(numbers_.begin() + static_cast<std::ptrdiff_t>(begin),
                      numbers_.begin() + static_cast<std::ptrdiff_t>(i),
                      numbers_[i]) != numbers_.begin() + static_cast<std::ptrdiff_t>(i))
          continue;
        out.indices.push_back(static_cast<std::int32_t>(numbers_[i] + k * options_.words_dim));
        out.values.push_back(1.0f);
      }
    }
    out.end_sparse();
  }
}

void WordSource::add_label(std::uint32_t word, StreamBuffer& out) const {
  if (options_.label_form == WordLabels::one_hot) return out.add_one_hot(word);
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
    if (options_.label_form != WordLabels::none)
      for (std::uint64_t t = begin_[s]; t < begin_[s + 1]; ++t) add_label(labels_[t], share[stream]);
    share.end_sequence(index_.samples_of(s));
  }
}

std::string WordSource::place(std::uint32_t sequence) { return fmt::format("{}:{}", options_.path, lines_[sequence]); }

LanguageModelSource::LanguageModelSource(WordSourceOptions options, std::string begin, std::string end)
    : WordSource(std::move(options)), begin_(std::move(begin)), end_(std::move(end)) {}

// CNTK uses the text as it is; a user who forgot the symbols should know.
void LanguageModelSource::check_ends(const std::vector<std::string_view>& words, std::size_t number) const {
  if (options_.trace_level < 1) return;
  if (!begin_.empty() && words.front() != begin_)
    log::warning(fmt::format("{}:{}: the line does not begin with beginSequence '{}'; lines are taken as they are",
                             options_.path, number, begin_));
  else if (!end_.empty() && words.back() != end_)
    log::warning(fmt::format("{}:{}: the line does not end with endSequence '{}'; lines are taken as they are",
                             options_.path, number, end_));
}

void LanguageModelSource::parse(std::string_view text) {
  constexpr std::size_t shortest = 3;  // a word between the two symbols
  const bool labels = options_.label_form != WordLabels::none;
  std::vector<std::string_view> split;
  Sentence sentence;
  std::size_t too_short = 0;
  bool first = true;
  each_line_of(text, [&](std::size_t line_number, std::string_view line) {
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
      const auto word = number(words(), split[t], line_number, line);
      const auto label = labels && word ? number(label_words(), split[t + 1], line_number, line) : word;
      if (!word || !label) return;
      sentence.words.push_back(*word), sentence.labels.push_back(*label);
    }
    keep(sentence);
  });
  if (too_short > 0 && options_.trace_level > 0)
    log::warning(fmt::format("{}: {} line{} of fewer than {} words left out", options_.path, too_short,
                             too_short == 1 ? "" : "s", shortest));
}

TaggedSource::TaggedSource(WordSourceOptions options, std::string end_word, std::string end_label)
    : WordSource(std::move(options)), end_word_(std::move(end_word)), end_label_(std::move(end_label)) {}

void TaggedSource::parse(std::string_view text) {
  std::vector<std::string_view> split;
  Sentence sentence;
  bool good = true;
  const auto end_sentence = [&] {
    if (good && !sentence.labels.empty()) keep(sentence);
    sentence = {}, good = true;
  };
  each_line_of(text, [&](std::size_t line_number, std::string_view line) {
    split_words(line, split);
    if (split.empty()) return end_sentence();
    if (sentence.begin.empty()) sentence.begin = {0}, sentence.line = line_number;
    if (split.size() < 2) {
      fault({line_place(options_.path, line_number, line, 0, line.size()), "the line has a word and no label",
             "lines are: word [word ...] label"});
      good = false;
      return;
    }
    for (std::size_t i = 0; good && i + 1 < split.size(); ++i)
      if (const auto n = number(words(), split[i], line_number, line))
        sentence.words.push_back(*n);
      else
        good = false;
    if (const auto n = good ? number(label_words(), split.back(), line_number, line) : std::nullopt)
      sentence.labels.push_back(*n);
    else
      good = false;
    sentence.begin.push_back(static_cast<std::uint32_t>(sentence.words.size()));
    if ((!end_label_.empty() && split.back() == end_label_) || (!end_word_.empty() && split.front() == end_word_))
      end_sentence();
  });
  end_sentence();
}

}  // namespace tutti::reader
