// SPDX-License-Identifier: Apache-2.0
// Plain text for language models, and CTF files of sequences.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "starter/kinds.h"
#include "tutti/error.h"

namespace tutti::starter {
namespace {

constexpr std::size_t kMostWords = 10'000;
constexpr const char* kEdge = "</s>";
constexpr const char* kUnknown = "<unk>";

template <class Use>
void each_word(std::string_view line, const Use& use) {
  for (std::size_t at = line.find_first_not_of(" \t"); at != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    use(line.substr(at, end - at));
    at = line.find_first_not_of(" \t", end);
  }
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
labelIn = [ labelType = "category" ; labelDim = {0} ; labelMappingFile = "{1}" ; beginSequence = "{2}" ; endSequence = "{2}" ]
labels  = [ labelType = "nextWord" ; labelDim = {0} ; labelMappingFile = "{1}" ])",
                     words, list, kEdge, file);
}

// ---- CTF

struct Stream {
  std::string name;
  bool sparse = false;
  std::int64_t dim = 0, samples = 0;
  bool one_hot = true;   // every sample has a single 1
  bool numbers = false;  // something else than 0 and 1
};

struct SequenceFile {
  std::vector<Stream> streams;
  std::int64_t lines = 0, sequences = 0;
};

void read_sample(std::string_view text, Stream& s) {
  std::int64_t count = 0, ones = 0, others = 0;
  each_word(text, [&](std::string_view word) {
    const auto colon = word.find(':');
    double index = 0, value = 0;
    if (colon != word.npos && as_number(word.substr(0, colon), index)) {
      s.sparse = true;
      s.dim = std::max(s.dim, static_cast<std::int64_t>(index) + 1);
      word = word.substr(colon + 1);
    }
    if (!as_number(word, value)) return;
    ++count;
    ones += value == 1, others += value != 0 && value != 1;
  });
  if (!s.sparse) s.dim = std::max(s.dim, count);
  s.one_hot = s.one_hot && ones == 1 && others == 0;
  s.numbers = s.numbers || others > 0;
  ++s.samples;
}

SequenceFile read_ctf(const std::string& path) {
  SequenceFile file;
  std::string last;
  each_line(path, [&](std::string_view line, std::int64_t number) {
    if (trimmed(line).empty()) return;
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
      auto known = std::ranges::find_if(file.streams, [&](const Stream& s) { return s.name == name; });
      if (known == file.streams.end()) known = file.streams.insert(known, Stream{name});
      read_sample(part.substr(blank), *known);
    }
  });
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
z = ReconcileDynamicAxis (model (features), labels))";

constexpr const char* kClassCriteria = R"(

ce   = CrossEntropyWithSoftmax (labels, z)    # what is minimised
errs = ClassificationError (labels, z)        # the share of wrong answers
criterionNodes  = (ce)
evaluationNodes = (errs)
outputNodes     = (z))";

constexpr const char* kNumberCriteria = R"(

mse = SquareError (labels, z)    # what is minimised
criterionNodes = (mse)
outputNodes    = (z))";

std::string sequence_reader(const std::string& file, const Stream& x, const Stream& y) {
  const auto block = [](const char* name, const Stream& s) {
    return fmt::format("    {} = [ alias = \"{}\" ; dim = {} ; format = \"{}\" ]\n", name, s.name, s.dim,
                       s.sparse ? "sparse" : "dense");
  };
  return fmt::format("readerType = \"CNTKTextFormatReader\"\nfile = \"{}\"\ninput = [\n{}{}]", file,
                     block("features", x), block("labels  ", y));
}

}  // namespace

Starter look_at_text(const Request& request) {
  std::map<std::string, std::int64_t> counts;
  std::int64_t lines = 0, words = 0;
  each_line(request.train, [&](std::string_view line, std::int64_t) {
    if (trimmed(line).empty()) return;
    ++lines;
    each_word(line, [&](std::string_view w) { ++counts[std::string(w)], ++words; });
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
  const auto mark = [](std::string_view line) { return fmt::format("{} {} {}\n", kEdge, trimmed(line), kEdge); };
  std::int64_t number = 0;
  // Without a text of its own, every tenth line is tested on.
  each_line(request.train, [&](std::string_view line, std::int64_t) {
    if (trimmed(line).empty()) return;
    (request.test.empty() && ++number % 10 == 0 ? test_text : train_text) += mark(line);
  });
  if (!request.test.empty())
    each_line(request.test, [&](std::string_view line, std::int64_t) {
      if (!trimmed(line).empty()) test_text += mark(line);
    });
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
                        request.test.empty() ? "; every tenth sentence is tested on" : "");
  return s;
}

Starter look_at_sequences(const Request& request) {
  const SequenceFile file = read_ctf(request.train);
  // Labels are named so, or the stream that comes last.
  std::size_t label = file.streams.size() - 1;
  for (std::size_t i = 0; i < file.streams.size(); ++i)
    if (const std::string& n = file.streams[i].name;
        n == "y" || n == "Y" || n.starts_with("label") || n == request.label)
      label = i;
  Stream y = file.streams[label];
  const Stream& x = file.streams[label == 0 ? 1 : 0];
  const bool per_sequence = y.samples < file.lines && x.samples > y.samples;
  const bool classes = y.one_hot && y.dim > 1;
  Starter s;
  const std::string base = filled(per_sequence ? kSequenceClassifier : kTagger,
                                  {{"DIM", std::to_string(x.dim)},
                                   {"SPARSE", x.sparse ? ", sparse = true" : ""},
                                   {"CLASSES", std::to_string(y.dim)},
                                   {"LABELS_SPARSE", y.sparse ? ", sparse = true" : ""},
                                   {"EMBEDDING", x.sparse && x.dim > 100 ? "\n    EmbeddingLayer {100} :" : ""}});
  s.network = base + (classes ? kClassCriteria : kNumberCriteria);
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
  return s;
}

}  // namespace tutti::starter
