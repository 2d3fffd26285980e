// SPDX-License-Identifier: Apache-2.0
#include "actions/word_classes.h"

#include <fmt/format.h>
#include <fmt/printf.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "actions/evaluation_network.h"
#include "base/host.h"
#include "base/utf8.h"
#include "train/file.h"
#include "tutti/log.h"

namespace tutti::actions {

void WordClassOptions::describe(config::Fields& f) {
  f("inputFile", input_file, "the text: one sequence per line, words separated by blanks");
  f.required("inputFile");
  f("outputVocabFile", vocabulary_file, "output file: index, count, word and class of each word");
  f.required("outputVocabFile");
  f("outputMappingFile", mapping_file, "output file: the words alone, one per line");
  f("outputWord2Cls", word_to_class_file, "output file: the class of each word");
  f("outputCls2Index", class_to_index_file, "output file: the first word of each class");
  f("vocabSize", vocabulary_size,
    "number of words to keep, including the unknown word; all others become the unknown word");
  f.required("vocabSize");
  f("nbrClass", classes, "number of classes; 0 = none");
  f("cutoff", cutoff, "words that occur at most this often are dropped");
  f("unk", unknown, "the unknown word");
  f("beginSequence", begin_sequence, "sentence start, added to lines that lack it");
  f.required("beginSequence");
  f("endSequence", end_sequence, "sentence end, added to lines that lack it");
  f.required("endSequence");
  f("makeMode", make_mode, "true: skip the action when the files are newer than the text");
  f.no_effect("printValues", "the files are written, nothing is printed");
  if (f.given("vocabSize") && vocabulary_size < 1)
    f.problem("vocabSize", fmt::format("vocabSize must be at least 1, not {}", vocabulary_size), "1 or more");
  if (classes < 0 || cutoff < 0) f.problem(classes < 0 ? "nbrClass" : "cutoff", "a count is not negative", "0 or more");
  if (classes > 0 && (word_to_class_file.empty() || class_to_index_file.empty()))
    f.problem("nbrClass", "classes need outputWord2Cls and outputCls2Index", "name both files, or nbrClass = 0");
}

namespace {

using Counts = std::map<std::string, double>;

// A line with its marks, as the original makes it.
std::string marked(std::string line, const WordClassOptions& o) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  line.erase(0, line.find_first_not_of(' '));
  line.erase(line.find_last_not_of(' ') + 1);
  if (line.find(o.begin_sequence + " ") == std::string::npos) line = o.begin_sequence + " " + line;
  if (line.find(" " + o.end_sequence) == std::string::npos) line += " " + o.end_sequence;
  return line;
}

Counts count_words(std::istream& text, const WordClassOptions& o) {
  Counts counts;
  bool first = true;
  for (std::string line; std::getline(text, line);) {
    if (std::exchange(first, false)) line.erase(0, byte_order_mark_size(line));
    std::istringstream words(marked(line, o));
    std::string word;
    words >> word;  // the mark of the beginning
    while (words >> word) ++counts[word];
  }
  return counts;
}

std::vector<WordClasses::Word> by_frequency(const Counts& counts) {
  std::vector<WordClasses::Word> words;
  for (const auto& [text, count] : counts) words.push_back({text, count, 0});
  std::stable_sort(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  return words;
}

// The most frequent words; the others count as the unknown one.
std::vector<WordClasses::Word> kept_words(const Counts& counts, std::size_t size, const std::string& unknown) {
  Counts kept;
  double unknown_count = 0;
  std::size_t others = 0;  // beside the unknown one
  for (const auto& w : by_frequency(counts)) {
    if (w.text == unknown || others + 1 >= size)
      unknown_count += w.count;
    else
      kept[w.text] = w.count, ++others;
  }
  kept[unknown] = unknown_count;
  return by_frequency(kept);
}

// Classes of equal shares of the sum of square roots of frequencies.
void assign_classes(WordClasses& c, std::int64_t classes) {
  double total = 0, roots = 0, share = 0;
  for (const auto& w : c.words) total += w.count;
  for (const auto& w : c.words) roots += std::sqrt(w.count / total);
  std::int64_t cls = 0;
  for (auto& w : c.words) {
    share = std::min(1.0, share + std::sqrt(w.count / total) / roots);
    if (share > static_cast<double>(cls + 1) / static_cast<double>(classes) && cls + 1 < classes) ++cls;
    w.cls = cls;
  }
  c.first_words.assign(static_cast<std::size_t>(classes), static_cast<std::int64_t>(c.words.size()));
  for (std::size_t i = c.words.size(); i-- > 0;)
    c.first_words[static_cast<std::size_t>(c.words[i].cls)] = static_cast<std::int64_t>(i);
  for (std::size_t k = c.first_words.size() - 1; k-- > 0;)
    c.first_words[k] = std::min(c.first_words[k], c.first_words[k + 1]);
}

// The files that are written, with their keys.
std::vector<std::pair<const char*, std::string>> outputs_of(const WordClassOptions& o) {
  std::vector<std::pair<const char*, std::string>> all = {{"outputVocabFile", o.vocabulary_file}};
  if (!o.mapping_file.empty()) all.emplace_back("outputMappingFile", o.mapping_file);
  if (o.classes > 0) {
    all.emplace_back("outputWord2Cls", o.word_to_class_file);
    all.emplace_back("outputCls2Index", o.class_to_index_file);
  }
  return all;
}

bool up_to_date(const WordClassOptions& o) {
  const auto outputs = outputs_of(o);
  return o.make_mode && std::all_of(outputs.begin(), outputs.end(), [&](const auto& output) {
           std::error_code missing, ignored;
           const auto written = std::filesystem::last_write_time(output.second, missing);
           return !missing && written >= std::filesystem::last_write_time(o.input_file, ignored);
         });
}

void write_text(const std::string& path, const std::string& text) {
  create_directories(directory_of(path));
  write_file(path, [&](std::ostream& out) { out << text; });
}

void write_files(const WordClasses& c, const WordClassOptions& o) {
  std::string vocabulary, mapping, classes, firsts;
  for (std::size_t i = 0; i < c.words.size(); ++i) {
    const auto& w = c.words[i];
    vocabulary += fmt::sprintf("     %d\t     %g\t%s\t%d\n", i, w.count, w.text, w.cls);
    mapping += w.text + "\n";
    classes += fmt::format("{}\n", w.cls);
  }
  for (const auto first : c.first_words) firsts += fmt::format("{}\n", first);
  write_text(o.vocabulary_file, vocabulary);
  if (!o.mapping_file.empty()) write_text(o.mapping_file, mapping);
  if (o.classes == 0) return;
  write_text(o.word_to_class_file, classes);
  write_text(o.class_to_index_file, firsts);
}

void run_word_classes(const WordClassOptions& options) {
  if (up_to_date(options)) return log::line("All output files up to date.");
  std::ifstream text(options.input_file);
  if (!text) throw Error(fmt::format("writeWordAndClass: cannot read '{}'", options.input_file));
  log::line(fmt::format("Reading input file inputFile: {}", options.input_file));
  const WordClasses c = make_word_classes(text, options);
  log::line(fmt::format("Vocabulary size {}.", c.found));
  if (static_cast<std::int64_t>(c.words.size()) < options.vocabulary_size)
    log::warning(
        fmt::format("the text has {} words more frequent than cutoff = {}: the vocabulary has {} words, not {}",
                    c.words.size(), options.cutoff, c.words.size(), options.vocabulary_size));
  write_files(c, options);
  for (const auto& [key, path] : outputs_of(options)) log::line(fmt::format("Written to {}", path));
}

std::optional<Action> make_word_class_action(const ActionContext& context, WordClassOptions options) {
  if (!context.flawless()) return std::nullopt;
  const bool absent = !file_exists(options.input_file);
  if (absent) {
    Diagnostic d{context.command.value("inputFile").where,
                 fmt::format("the data file '{}' cannot be read", options.input_file),
                 "check the path; a run would stop here"};
    context.only_check ? context.notices->add(d) : context.problems->add(std::move(d));
  }
  const bool writes = absent || !up_to_date(options);
  for (const auto& [key, path] : outputs_of(options)) {
    context.may_write(path, key);
    if (writes) context.will_write(path);
  }
  return Action{
      .settings = fmt::format("  text       {}\n  vocabulary {}", options.input_file, options.vocabulary_file),
      .run = [options] { run_word_classes(options); }};
}

}  // namespace

WordClasses make_word_classes(std::istream& text, const WordClassOptions& o) {
  const Counts counts = count_words(text, o);
  const auto frequent = std::count_if(counts.begin(), counts.end(), [&](const auto& w) {
    return o.cutoff == 0 || w.second > static_cast<double>(o.cutoff);
  });
  if (frequent == 0) throw Error(fmt::format("writeWordAndClass: no word is more frequent than cutoff = {}", o.cutoff));
  WordClasses c;
  c.found = counts.size();
  c.words =
      kept_words(counts, static_cast<std::size_t>(std::min<std::int64_t>(o.vocabulary_size, frequent)), o.unknown);
  if (o.classes > 0) assign_classes(c, o.classes);
  return c;
}

ActionEntry word_class_action() {
  return action_entry({"writeWordAndClass"}, false, make_word_class_action,
                      "writes the vocabulary and the word classes of a text");
}

}  // namespace tutti::actions
