// SPDX-License-Identifier: Apache-2.0
// Options of the readers of words. Blocks are recognised by their contents: those with labelType, labelDim or
// labelMappingFile are the input words and the labels, in alphabetical order; the other one is the features.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "reader/reader_row.h"
#include "reader/words/word_source.h"

namespace tutti::reader {
namespace {

constexpr std::int64_t most_words = 100'000'000;

void ignore_cache(config::Fields& f, std::initializer_list<const char*> keys) {
  for (const char* key : keys) f.no_effect(key, "words are not cached in binary files");
}
void ignore_sections(config::Fields& f) {
  ignore_cache(f, {"elementSize", "sectionType", "mapping", "category", "wrecords"});
}

using Mode = WordReaderOptions::Mode;

// It may stand in the reader's block and in that of the features.
void describe_mode(Mode& mode, config::Fields& f) {
  f.choice("mode", mode,
           {{"class", Mode::classes},
            {"softmax", Mode::softmax},
            {"plain", Mode::softmax},
            {"nce", Mode::noise_contrastive}},
           "class: labels are word, class, and the range of the class; softmax: one-hot words");
  f.no_effect("noise_number", "it belongs to mode = nce");
  if (mode == Mode::noise_contrastive)
    f.problem("mode", "this version has no noise contrastive estimation", "mode = class with rnnType = CLASSLSTM");
}

// Of the features little more than the name counts.
struct FeatureBlock {
  Mode mode = Mode::classes;
  void describe(config::Fields& f) {
    describe_mode(mode, f);
    f.no_effect("dim", "the vocabulary says how many words there are");
    ignore_sections(f);
  }
};

// Where the words of a block stand: its token file, its labelMappingFile when that exists, else the class file.
WordList list_of(const WordReaderOptions& o, const WordBlock& b) {
  if (o.tagged)
    return {b.token, b.has_classes() ? WordList::Kind::words_with_classes : WordList::Kind::words,
            b.use_word_map ? o.word_map : std::string()};
  if (!o.word_classes.empty() &&
      (b.mapping.empty() || !std::filesystem::exists(b.mapping) || o.label_form() == WordLabels::classes))
    return {o.word_classes, WordList::Kind::class_file};
  return {b.mapping, WordList::Kind::words};
}

// The list of a block, and labelDim out of it where that is not given. Where it is, the list may still be to come.
void find_list(const WordReaderOptions& o, WordBlock& b, const std::string& name, const config::Record& block,
               const ReaderContext& context) {
  b.list = list_of(o, b);
  const config::Record own = block.block(name);
  const std::string key = o.tagged ? "token" : b.list.path == o.word_classes ? "wordclass" : "labelMappingFile";
  const config::Record& holder = key == "wordclass" ? block : own;
  b.list.where = holder.has(key) ? holder.value(key).where : own.where();
  if (b.list.path.empty()) {
    context.problems->add(Diagnostic{own.where(), fmt::format("no word list is given for '{}'", name),
                                     o.tagged ? "token = \"words.txt\", a file with one word per line"
                                              : "wordclass = \"vocab.txt\" of the action writeWordAndClass, or "
                                                "labelMappingFile, a file with one word per line"});
  } else if (b.dim == 0) {
    check_file(holder, key, b.list.path, context);
    if (context.problems->empty()) b.dim = static_cast<std::int64_t>(read_list(b.list).size());
  }
}

// The names of the blocks that are words, in the alphabetical order that the original goes by, and the features' name.
std::vector<std::string> find_blocks(WordReaderOptions& o, const config::Record& block,
                                     std::vector<std::string>& also) {
  std::vector<std::string> word_blocks, others;
  for (const std::string& key : block.keys()) {
    if (!block.is_block(key)) continue;
    also.push_back(key);
    const config::Record own = block.block(key);
    const bool has_words =
        own.has_own("labelType") || own.has_own("labelDim") || own.has_own("labelMappingFile") || own.has_own("token");
    (has_words ? word_blocks : others).push_back(key);
  }
  const auto before = [](const std::string& a, const std::string& b) {
    return config::to_lower(a) < config::to_lower(b);
  };
  std::sort(word_blocks.begin(), word_blocks.end(), before);
  std::sort(others.begin(), others.end(), before);
  if (!others.empty()) o.features = others.front();
  return word_blocks;
}

void read_blocks(WordReaderOptions& o, const std::vector<std::string>& names, const config::Record& block,
                 const ReaderContext& context, const std::string& title) {
  if (names.size() != 2) {
    context.problems->add(Diagnostic{
        block.where(), fmt::format("{} has {} blocks of words but needs two", title, names.size()),
        "labelIn = [ labelDim = ... ] for the input, labels = [ labelType = ... ; labelDim = ... ] for the output"});
    return;
  }
  o.input_name = names[0], o.label_name = names[1];
  if (block.string("inputLabel", names[0]) == names[1] || block.string("outputLabel", names[1]) == names[0])
    std::swap(o.input_name, o.label_name);
  read_block(o.input, block.block(o.input_name), o.input_name, context, {});
  read_block(o.label, block.block(o.label_name), o.label_name, context, {});
  FeatureBlock features{o.mode};
  if (!o.features.empty()) read_block(features, block.block(o.features), o.features, context, {});
  o.mode = features.mode;
  if (o.input.type != WordBlock::Type::category)
    context.problems->add(Diagnostic{block.block(o.input_name).where(),
                                     fmt::format("the input '{}' must have labelType = category", o.input_name),
                                     "labelType = \"category\"; blocks are taken in alphabetical order, or by "
                                     "inputLabel and outputLabel"});
  if (o.tagged && o.label.type == WordBlock::Type::next_word) {
    context.problems->add(Diagnostic{block.block(o.label_name).value("labelType").where,
                                     "labels of LUSequenceReader are the last column; they cannot be the next word",
                                     "labelType = \"category\" and token = \"labels.txt\", a file with one label per "
                                     "line; LMSequenceReader has nextWord"});
  } else if (o.label.type == WordBlock::Type::next_word) {
    // The labels are the input's words.
    const WordBlock own = o.label;
    o.label = o.input;
    o.label.type = own.type;
    o.label.dim = block.block(o.label_name).has_own("labelDim") ? own.dim : 0;
  }
}

// The labels are the input's words.
void take_words_of_input(WordReaderOptions& o, const config::Record& block, const ReaderContext& context) {
  if (o.label.dim > 0 && o.input.dim > 0 && o.label.dim != o.input.dim)
    context.problems->add(Diagnostic{
        block.block(o.label_name).value("labelDim").where,
        fmt::format("labelDim = {}, but the labels are the {} words of '{}'", o.label.dim, o.input.dim, o.input_name),
        fmt::format("labelDim = {}, or leave it out", o.input.dim)});
  o.label.dim = o.input.dim, o.label.list = o.input.list;
}

// A text may be licensed, or still be in preparation, while everything else is checked.
bool is_absent(const std::string& path, const config::Record& block, const ReaderContext& context) {
  const std::string why = context.only_check && !path.empty() ? unreadable(path) : "";
  if (why.empty()) return false;
  Diagnostic absent = unreadable_data(block.value("file").where, path, why);
  absent.fix = "its contents are not checked, and a run would stop here";
  context.notices->add(absent);
  return true;
}

}  // namespace

Made read_words(const config::Record& block, const std::string& title, const ReaderContext& context) {
  const auto o = new_options<WordReaderOptions>(context);
  o->tagged = title == "LUSequenceReader";
  std::vector<std::string> also{"readerType"};
  const std::vector<std::string> names = find_blocks(*o, block, also);
  Described settings{[o](config::Fields& f) { o->describe_settings(f); }};
  read_block(settings, block, title, context, also);
  const bool absent = is_absent(o->file, block, context);
  if (!absent) check_file(block, "file", o->file, context);
  if (!o->word_map.empty()) check_file(block, "wordmap", o->word_map, context);
  read_blocks(*o, names, block, context, title);
  if (context.problems->empty()) {
    if (!o->input.use_word_map && !o->label.use_word_map)
      note_no_effect(block, "wordmap", "without useWordMap in a block of words", "useWordMap = true", context);
    find_list(*o, o->input, o->input_name, block, context);
    if (o->label.type == WordBlock::Type::next_word)
      take_words_of_input(*o, block, context);
    else if (o->label.type == WordBlock::Type::category)
      find_list(*o, o->label, o->label_name, block, context);
  }
  const bool training = trains(context);
  const std::int64_t lanes = std::max<std::int64_t>(0, o->sentences.at(0));
  if (training) only_first_value(o->sentences, sequences_key, title, context);
  Truncation truncation = o->truncation.truncation(training);
  if (o->truncation.truncated && o->truncation.length == 0 && training)
    truncation = {0, std::max<std::int64_t>(1, lanes)};
  return {[o](config::Fields& f) { o->describe(f); },
          [o, absent]() -> std::unique_ptr<SequenceSource> {
            if (absent) return std::make_unique<AbsentWords>(*o);
            return std::make_unique<WordSource>(*o);
          },
          o->order.randomization(training), truncation, lanes};
}

bool WordBlock::has_classes() const { return config::equal_keys(mode, "class"); }

void WordBlock::describe(config::Fields& f) {
  f.choice("labelType", type, {{"category", Type::category}, {"nextWord", Type::next_word}, {"none", Type::none}},
           "category: words of a list; nextWord: the next word of the input; none: no labels");
  f("labelDim", dim, "number of words; 0 = as many as the list has");
  f("labelMappingFile", mapping, "a file with one word per line; where it does not exist, wordclass says the words");
  f("token", token, "LUSequenceReader: the file with one word per line, with mode = class word and class");
  f("beginSequence", begin, "the word that sentences begin with");
  f("endSequence", end, "the word that sentences end with");
  f("useWordMap", use_word_map, "LUSequenceReader: words are those that wordmap maps them to");
  f("mode", mode, "LUSequenceReader: class for labels with classes, plain for one-hot labels");
  f.no_effect("dim", "the vocabulary says how many words there are");
  f.no_effect("isProposal", "nothing is decoded");
  ignore_sections(f);
  if (dim < 0 || dim > most_words) f.problem("labelDim", "labelDim is a number of words", "labelDim = 10000");
}

void WordReaderOptions::describe(config::Fields& f) {
  f.block(input_name.empty() ? "labelIn" : input_name, input, "the input words");
  f.block(label_name.empty() ? "labels" : label_name, label, "the labels");
  describe_settings(f);
}

void WordReaderOptions::describe_settings(config::Fields& f) {
  f("file", file, tagged ? "lines of words and a label, a blank line behind each sentence" : "a sentence per line");
  f.required("file");
  f("unk", unknown, "the word that stands for words that are not in the list");
  if (tagged) {
    f("wordContext", context, "which neighbours of a word the features are: 0:1 is the word and the next one");
    f("wordmap", word_map, "a file of lines: word, word that it becomes; for blocks with useWordMap");
    f.no_effect("equalLength", "sentences of any lengths make a minibatch");
    f.no_effect("dataMultiPass", "epochs go on through the data");
  } else {
    f("wordclass", word_classes, "file of number, count, word, class per line, as writeWordAndClass makes it");
    describe_mode(mode, f);
    f.no_effect("cacheBlockSize", "the whole text is read");
  }
  f(sequences_key, sentences,
    "sentences of a minibatch, whatever their lengths; 0 = as many as minibatchSize words; with truncated: lanes");
  order.describe(f);
  truncation.needs_length = false;
  truncation.describe(f);
  describe_faults(f, "number of faulty sentences to tolerate; they are skipped");
  f.no_effect("verbosity", "traceLevel decides what is shown");
  for (const char* key : {"inputLabel", "outputLabel"}) {
    std::string name;
    f(key, name, "names of the input and label blocks; default: alphabetical order");
  }
  ignore_cache(f, {"writerType", "wfile", "wsize", "wrecords", "windowSize"});
  std::vector<std::string> several;
  f("ioNodeNames", several, "several features in blocks of their own: not possible");
  if (!several.empty())
    f.problem("ioNodeNames", "this version reads one block of features", "write the blocks into the reader itself");
  if (context.values.empty()) f.problem("wordContext", "wordContext is empty", "0 is the word itself");
  if (!sentences.values.empty() && sentences.at(0) < 0)
    f.problem("nbruttsineachrecurrentiter", "a number of sentences is not negative", "0 fills up to minibatchSize");
}

WordLabels WordReaderOptions::label_form() const {
  if (label.type == WordBlock::Type::none) return WordLabels::none;
  const bool classes = tagged ? label.has_classes() : mode == Mode::classes;
  return classes ? WordLabels::classes : WordLabels::one_hot;
}

void describe_language_model(config::Fields& f) { WordReaderOptions().describe(f); }

void describe_tagged_words(config::Fields& f) {
  WordReaderOptions o;
  o.tagged = true;
  o.describe(f);
}

}  // namespace tutti::reader
