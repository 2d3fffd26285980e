// SPDX-License-Identifier: Apache-2.0
// Plain text for language models, and CTF files of sequences.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "base/trimmed.h"
#include "starter/kinds.h"
#include "tutti/error.h"

namespace tutti::starter {
namespace {

constexpr std::size_t kMostWords = 10'000;
constexpr const char* kEdge = "</s>";
constexpr const char* kUnknown = "<unk>";

template <class Use>
void each_word(std::string_view line, bool (*blank)(char), const Use& use) {
  for (auto at = std::find_if_not(line.begin(), line.end(), blank); at != line.end();) {
    const auto end = std::find_if(at, line.end(), blank);
    use(std::string_view(at, end));
    at = std::find_if_not(end, line.end(), blank);
  }
}

// A sentence without the marks at its ends, which some texts have already. Blanks are those of LMSequenceReader.
std::string_view sentence_of(std::string_view line) {
  constexpr std::string_view mark = kEdge;
  line = trimmed(line, is_blank);
  if (line == mark) return {};
  if (line.starts_with(mark) && is_blank(line[mark.size()])) line = trimmed(line.substr(mark.size()), is_blank);
  if (line == mark) return {};
  if (line.ends_with(mark) && is_blank(line[line.size() - mark.size() - 1]))
    line = trimmed(line.substr(0, line.size() - mark.size()), is_blank);
  return line;
}

constexpr const char* kLanguageModel = R"(words  = Input {@WORDS@, sparse = true}    # one-hot
labels = Input {@WORDS@, sparse = true}    # the next word

model = Sequential (
    EmbeddingLayer {100} :
    RecurrentLSTMLayer {150} :
    LinearLayer {@WORDS@})
z = model (words)

ce   = CrossEntropyWithSoftmax (labels, z)    # its exponential is the perplexity
errs = ClassificationError (labels, z)
criterionNodes  = (ce)
evaluationNodes = (errs)
outputNodes     = (z))";

std::string language_reader(const std::string& file, const std::string& list, std::size_t words) {
  return fmt::format(R"(readerType = "LMSequenceReader"
file = "{3}"
nbruttsineachrecurrentiter = 0    # as many sentences as fit into minibatchSize words
words   = [ mode = "softmax" ]    # the input, and labels that are one-hot
labelIn = [ labelType = "category" ; labelDim = {0} ; labelMappingFile = "{1}"
            beginSequence = "{2}" ; endSequence = "{2}" ]
labels  = [ labelType = "nextWord" ; labelDim = {0} ; labelMappingFile = "{1}" ])",
                     words, list, kEdge, file);
}

// ---- CTF

struct Stream {
  std::string name;
  bool sparse = false;
  std::int64_t dim = 0, samples = 0;
  std::int64_t dim_line = 0;  // where a sample has so many values first
  bool one_hot = true;        // every sample has a single 1
  bool numbers = false;       // something else than 0 and 1
  std::string word = {};      // the first value that is no number
  std::int64_t word_line = 0;
};

struct SequenceFile {
  std::vector<Stream> streams;
  std::int64_t lines = 0, sequences = 0;

  // The stream's place; the number of streams if there is none.
  std::size_t find(const std::string& name) const {
    return static_cast<std::size_t>(std::ranges::find(streams, name, &Stream::name) - streams.begin());
  }
  bool once_per_sequence(const Stream& x, const Stream& y) const { return y.samples < lines && x.samples > y.samples; }
};

void read_sample(std::string_view text, std::int64_t line, Stream& s) {
  std::int64_t count = 0, ones = 0, others = 0;
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  each_word(text, blank, [&](std::string_view whole) {
    std::string_view word = whole;
    const auto colon = word.find(':');
    double index = 0, value = 0;
    if (colon != word.npos && as_number(word.substr(0, colon), index)) {
      s.sparse = true;
      s.dim = std::max(s.dim, static_cast<std::int64_t>(index) + 1);
      word = word.substr(colon + 1);
    }
    if (!as_number(word, value)) {
      if (s.word_line == 0) s.word = whole, s.word_line = line;
      return;
    }
    ++count;
    ones += value == 1, others += value != 0 && value != 1;
  });
  if (!s.sparse) s.dim = std::max(s.dim, count);
  s.one_hot = s.one_hot && ones == 1 && others == 0;
  s.numbers = s.numbers || others > 0;
  ++s.samples;
}

bool ends_with_newline(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(-1, std::ios::end);
  return in.get() == '\n';
}

SequenceFile read_ctf(const std::string& path) {
  SequenceFile file;
  std::string last;
  std::int64_t last_line = 0;  // 0 if it is blank
  each_line(path, [&](std::string_view line, std::int64_t number) {
    last_line = trimmed(line).empty() ? 0 : number;
    if (last_line == 0) return;
    const auto bar = line.find('|');
    if (bar == line.npos)
      throw Error(
          fmt::format("{}:{}: error: there is no |name in this line\nfix: write sequences as 'ID |x 0.1 0.2 |y 3:1', "
                      "docs/readers/text.md",
                      path, number));
    const std::string id(trimmed(line.substr(0, bar)));
    if (!id.empty() && (id != last || file.sequences == 0)) ++file.sequences, last = id;
    ++file.lines;
    for (std::size_t at = bar; at < line.size();) {
      const std::size_t end = std::min(line.find('|', at + 1), line.size());
      const std::string_view part = line.substr(at + 1, end - at - 1);
      const std::size_t blank = std::min(part.find_first_of(" \t"), part.size());
      const std::string name(part.substr(0, blank));
      at = end;
      if (name.empty() || name[0] == '#') continue;
      const std::size_t known = file.find(name);
      if (known == file.streams.size()) file.streams.push_back(Stream{name});
      Stream& stream = file.streams[known];
      const std::int64_t dim = stream.dim;
      read_sample(part.substr(blank), number, stream);
      if (stream.dim > dim) stream.dim_line = number;
    }
  });
  if (last_line > 0 && !ends_with_newline(path))
    fail_at(path, last_line, "the last line has no newline; the file may be cut off", "add a newline at its end");
  if (file.streams.size() < 2)
    throw Error(
        fmt::format("{}:1: error: {} stream{}, and features and labels are needed\nfix: write 'ID |x 0.1 0.2 |y 3:1'",
                    path, file.streams.size(), file.streams.size() == 1 ? "" : "s"));
  if (file.sequences == 0)
    throw Error(
        fmt::format("{}:1: error: the lines have no sequence ids\nfix: begin every line with the number of its "
                    "sequence; for single samples take trainer new table",
                    path));
  return file;
}

constexpr const char* kTagger = R"(features = Input {@DIM@@SPARSE@}
labels   = Input {@CLASSES@@LABELS_SPARSE@}    # one for each step

model = Sequential (@EMBEDDING@
    RecurrentLSTMLayer {100} :
    LinearLayer {@CLASSES@})
z = model (features))";

constexpr const char* kSequenceClassifier = R"(features = Input {@DIM@@SPARSE@, dynamicAxis = DynamicAxis {}}
labels   = Input {@CLASSES@@LABELS_SPARSE@}    # one for each sequence, so another axis than that of the steps

model = Sequential (@EMBEDDING@
    RecurrentLSTMLayer {50} :
    BS.Sequences.Last :
    LinearLayer {@CLASSES@})
p = model (features)                    # needs no labels, for predictions
z = ReconcileDynamicAxis (p, labels))";

constexpr const char* kClassCriteria = R"(

ce   = CrossEntropyWithSoftmax (labels, z)    # what is minimised
errs = ClassificationError (labels, z)        # the share of wrong answers
criterionNodes  = (ce)
evaluationNodes = (errs)
outputNodes     = (@OUTPUT@))";

constexpr const char* kNumberCriteria = R"(

mse = SquareError (labels, z)    # what is minimised
criterionNodes = (mse)
outputNodes    = (@OUTPUT@))";

std::string sequence_reader(const std::string& file, const Stream& x, const Stream& y) {
  const auto block = [](const char* name, const Stream& s) {
    return fmt::format("    {} = [ alias = \"{}\" ; dim = {} ; format = \"{}\" ]\n", name, s.name, s.dim,
                       s.sparse ? "sparse" : "dense");
  };
  return fmt::format("readerType = \"CNTKTextFormatReader\"\nfile = \"{}\"\ninput = [\n{}{}]", file,
                     block("features", x), block("labels  ", y));
}

// The label's place among the streams: the one asked for, or named so, or the last one.
std::size_t find_label(const SequenceFile& file, const Request& request) {
  if (!request.label.empty()) {
    const std::size_t asked = file.find(request.label);
    if (asked < file.streams.size()) return asked;
    fail_at(request.train, 0, fmt::format("there is no stream '{}'", request.label),
            fmt::format("--label {}", file.streams.back().name));
  }
  std::size_t label = file.streams.size() - 1;
  for (std::size_t i = 0; i < file.streams.size(); ++i)
    if (const std::string& n = file.streams[i].name; n == "y" || n == "Y" || n.starts_with("label")) label = i;
  return label;
}

void check_numbers(const Stream& s, const std::string& path) {
  if (s.word_line > 0)
    fail_at(path, s.word_line, fmt::format("'{}' of |{} is not a number", s.word, s.name),
            "write its values as numbers, or as index:value");
}

// Test data must have the streams of the training data; of sparse ones, the larger dimension of both is taken.
void adopt_test(const Request& request, const SequenceFile& train, Stream& x, Stream& y) {
  const SequenceFile test = read_ctf(request.test);
  for (Stream* of_train : {&x, &y}) {
    const std::size_t at = test.find(of_train->name);
    if (at == test.streams.size())
      fail_at(request.test, 1, fmt::format("there is no stream '{}', as in '{}'", of_train->name, request.train),
              "give both files the same streams");
    const Stream& s = test.streams[at];
    check_numbers(s, request.test);
    const auto form = [](const Stream& f) {
      return fmt::format("{} values ({})", f.dim, f.sparse ? "sparse" : "dense");
    };
    if (s.sparse != of_train->sparse || (!s.sparse && s.dim != of_train->dim))
      fail_at(request.test, s.dim_line,
              fmt::format("'{}' has {}, and in '{}' {}", s.name, form(s), request.train, form(*of_train)),
              "write both files alike");
    of_train->dim = std::max(of_train->dim, s.dim);
  }
  const bool once = train.once_per_sequence(x, y);
  if (test.lines > test.sequences &&
      once != test.once_per_sequence(test.streams[test.find(x.name)], test.streams[test.find(y.name)]))
    fail_at(request.test, 0,
            fmt::format("'{}' is not there once for each {}, as in '{}'", y.name, once ? "sequence" : "step",
                        request.train),
            "write both files alike");
}

}  // namespace

Starter look_at_text(const Request& request) {
  std::map<std::string, std::int64_t> counts;
  std::int64_t lines = 0, words = 0;
  each_line(request.train, [&](std::string_view line, std::int64_t) {
    const std::string_view sentence = sentence_of(line);
    if (sentence.empty()) return;
    ++lines;
    each_word(sentence, is_blank, [&](std::string_view w) { ++counts[std::string(w)], ++words; });
  });
  if (lines < 2)
    throw Error(
        fmt::format("{}:1: error: {} line{} of text, and each line is a sentence\nfix: write a sentence per line",
                    request.train, lines, lines == 1 ? "" : "s"));
  std::vector<std::pair<std::int64_t, std::string>> frequent;
  for (const auto& [word, count] : counts)
    if (word != kEdge && word != kUnknown) frequent.emplace_back(-count, word);
  std::ranges::sort(frequent);
  if (frequent.size() > kMostWords - 2) frequent.resize(kMostWords - 2);
  std::string list = fmt::format("{}\n{}\n", kEdge, kUnknown);
  for (const auto& [count, word] : frequent) list += word + "\n";
  const std::size_t size = frequent.size() + 2;

  Starter s;
  const std::string vocabulary = request.name + ".words", train = request.name + ".train.txt",
                    test = request.name + ".test.txt";
  std::string train_text, test_text;
  const auto add = [](std::string_view sentence, std::string& text) {
    if (!sentence.empty()) text += fmt::format("{} {} {}\n", kEdge, sentence, kEdge);
  };
  std::int64_t number = 0;
  // Without a text of its own, every tenth line is tested on.
  each_line(request.train, [&](std::string_view line, std::int64_t) {
    const std::string_view sentence = sentence_of(line);
    const bool tests = request.test.empty() && !sentence.empty() && ++number % 10 == 0;
    add(sentence, tests ? test_text : train_text);
  });
  if (!request.test.empty()) {
    each_line(request.test, [&](std::string_view line, std::int64_t) { add(sentence_of(line), test_text); });
    if (test_text.empty()) fail_at(request.test, 1, "there is no text", "write a sentence per line");
  }
  s.files = {{vocabulary, list}, {train, train_text}};
  s.network = filled(kLanguageModel, {{"WORDS", std::to_string(size)}});
  const std::int64_t epochs = epochs_for(3000, words, 500);
  s.sgd = fmt::format(
      "maxEpochs = {}\nminibatchSize = 500           # words of a step, over all ranks\ngradUpdateType = "
      "\"adam\"\nlearningRatesPerMB = 0.003*{}:0.001",
      epochs, std::max<std::int64_t>(epochs * 2 / 3, 1));
  s.train_reader = language_reader(train, vocabulary, size);
  if (!test_text.empty()) {
    s.files.emplace_back(test, test_text);
    s.test_reader = language_reader(test, vocabulary, size);
  }
  s.found = fmt::format("{} sentences of {} words, {} different ones in the list{}", lines, words, size,
                        !request.test.empty() ? ""
                        : test_text.empty()   ? "; too few to test on every tenth"
                                              : "; every tenth sentence is tested on");
  return s;
}

Starter look_at_sequences(const Request& request) {
  const SequenceFile file = read_ctf(request.train);
  const std::size_t label = find_label(file, request);
  Stream y = file.streams[label], x = file.streams[label == 0 ? 1 : 0];
  for (const Stream* s : {&x, &y}) check_numbers(*s, request.train);
  const bool per_sequence = file.once_per_sequence(x, y);
  if (!request.test.empty()) adopt_test(request, file, x, y);
  const bool classes = y.one_hot && y.dim > 1;
  Starter s;
  const std::string base = filled(per_sequence ? kSequenceClassifier : kTagger,
                                  {{"DIM", std::to_string(x.dim)},
                                   {"SPARSE", x.sparse ? ", sparse = true" : ""},
                                   {"CLASSES", std::to_string(y.dim)},
                                   {"LABELS_SPARSE", y.sparse ? ", sparse = true" : ""},
                                   {"EMBEDDING", x.sparse && x.dim > 100 ? "\n    EmbeddingLayer {100} :" : ""}});
  s.network = base + filled(classes ? kClassCriteria : kNumberCriteria, {{"OUTPUT", per_sequence ? "p" : "z"}});
  const std::int64_t minibatch =
      std::clamp<std::int64_t>(file.lines / std::max<std::int64_t>(file.sequences, 1) * 20, 100, 2000);
  const std::int64_t epochs = epochs_for(2000, file.lines, minibatch);
  s.sgd = fmt::format(
      "maxEpochs = {}\nminibatchSize = {}            # steps of all sequences together, over all ranks\ngradUpdateType "
      "= \"adam\"\nlearningRatesPerMB = 0.005*{}:0.001",
      epochs, minibatch, std::max<std::int64_t>(epochs * 2 / 3, 1));
  s.train_reader = sequence_reader(request.train, x, y);
  if (!request.test.empty()) s.test_reader = sequence_reader(request.test, x, y);
  s.found = fmt::format(
      "{} sequences of {} steps; '{}' has {} values, '{}' {} for each {}", file.sequences, file.lines, x.name, x.dim,
      y.name,
      classes ? fmt::format("one of {} classes", y.dim) : fmt::format("{} number{}", y.dim, y.dim == 1 ? "" : "s"),
      per_sequence ? "sequence" : "step");
  for (const Stream& other : file.streams)
    if (other.name != x.name && other.name != y.name) s.found += fmt::format("; '{}' is not used", other.name);
  return s;
}

}  // namespace tutti::starter
