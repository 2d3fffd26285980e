// SPDX-License-Identifier: Apache-2.0
#include "starter/starter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/exit_codes.h"
#include "base/host.h"
#include "base/shell_word.h"
#include "base/trimmed.h"
#include "base/utf8.h"
#include "starter/kinds.h"

namespace tutti::starter {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: trainer new KIND DATA [TESTDATA] [--name NAME] [--label COLUMN] [--force]\n\n"
    "Looks at the data and writes NAME.cntk (my.cntk), a commented config that trains on them:\n"
    "  mnist DIR        IDX files as those of MNIST: train-images..., train-labels..., t10k-images..., t10k-labels...\n"
    "  images DIR       PNG and JPEG files in a folder for each class, or a map file with lines of path<TAB>label\n"
    "  text FILE        plain text, a sentence per line: a language model of words\n"
    "  sequence FILE    CTF lines with sequence ids: a label for each step, or one for each sequence\n"
    "  table FILE.csv   rows of numbers with a label column: classes, or a number to predict\n"
    "A second file or folder is tested on; it has the same columns, classes or streams. --label names the label: a\n"
    "table's column by its title or number (from 0), or a sequence's stream.\n";

// NAME.cntk; its lines are below.
constexpr const char* kConfig = R"(# @FILE@: made by 'trainer new @KIND@' from @DATA@
# @FOUND@.
#
#   trainer @CONFIG@                    # one process
#   trainer launch -n 4 @CONFIG@        # four ranks, which share the data
#   trainer --check @CONFIG@            # shows what would be done
#
# Any setting may be overridden on the command line: 'Train=[SGD=[maxEpochs=3]]'. 'trainer help SGD' explains keys.
command    = @COMMANDS@
modelPath  = "output/@NAME@/@NAME@.dnn"    # checkpoints are written beside it; the same command goes on from the newest
traceLevel = 1
# stderr   = "output/@NAME@/log"        # where to write the log

Train = [
    action = "train"

    BrainScriptNetworkBuilder = {
@NETWORK@
    }

    SGD = [
@SGD@
        numMBsToShowResult = 100      # result lines; 0 = only after each epoch
        # What several ranks exchange; fewer gradientBits for slow networks (docs/methods/README.md).
        ParallelTrain = [ parallelizationMethod = "DataParallelSGD" ; DataParallelSGD = [ gradientBits = 32 ] ]
    ]

    reader = [
@TRAIN@
    ]
]
)";
constexpr const char* kTest = R"(
# Results on data that the training has not seen.
Test = [
    action = "test"
    reader = [
@TEST@
    ]
]
)";

struct Kind {
  const char* name;
  Starter (*look)(const Request&);
  bool has_label;  // of several columns or streams
};
constexpr Kind kKinds[] = {{"mnist", look_at_idx, false},
                           {"images", look_at_images, false},
                           {"text", look_at_text, false},
                           {"sequence", look_at_sequences, true},
                           {"table", look_at_table, true}};

std::string indented(const std::string& text, std::size_t by) {
  std::string out(by, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) out += text[i + 1] == '\n' ? "" : std::string(by, ' ');
  }
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

struct Words {
  bool help = false, force = false;
  std::string kind;
  Request request;
};

Words read_words(int argc, const char* const* argv) {
  Words w;
  w.request.name = "my";
  std::vector<std::string> plain;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) throw Error(fmt::format("new: {} needs a value\nfix: trainer new --help", word));
      return argv[++i];
    };
    if (word == "--help" || word == "-h")
      w.help = true;
    else if (word == "--force")
      w.force = true;
    else if (word == "--name")
      w.request.name = value();
    else if (word == "--label")
      w.request.label = value();
    else if (word.starts_with("-"))
      throw Error(fmt::format("new: there is no '{}'\nfix: {}", word,
                              did_you_mean(word, {"--name", "--label", "--force", "--help"}, "trainer new --help")));
    else
      plain.push_back(word);
  }
  if (w.help) return w;
  if (plain.size() < 2 || plain.size() > 3)
    throw Error(
        "new: a kind and its data are needed\nfix: trainer new table FILE.csv; trainer new --help lists the kinds");
  w.kind = plain[0], w.request.train = plain[1];
  if (plain.size() > 2) w.request.test = plain[2];
  return w;
}

// The config holds the paths in quotes; the command line holds the config's name without them.
void check_names(const Words& w) {
  const auto check = [](const std::string& what, const std::string& text, const char* unfit) {
    const auto at = std::min(text.find_first_of(unfit), text.find(" #"));
    if (at != text.npos)
      throw Error(fmt::format("new: {} '{}' has a '{}' in it, which configs cannot hold\nfix: rename it", what, text,
                              text[at] == ' ' ? " #" : text.substr(at, 1)));
  };
  for (const std::string& path : {w.request.train, w.request.test}) {
    if (!path.empty() && !fs::exists(path))
      throw Error(fmt::format("new: there is no '{}'\nfix: name the data: trainer new {} PATH", path, w.kind));
    check("the path", path, "$\"\n");
  }
  check("the name", w.request.name, "$\"\n+#()[]{}");
  if (fs::path(w.request.name).filename().empty())
    throw Error(fmt::format("new: --name '{}' names no file\nfix: --name my writes my.cntk", w.request.name));
}

std::string text_of(const Words& w, const Starter& s) {
  const std::string file = w.request.name + ".cntk";
  const bool tested = !s.test_reader.empty();
  std::map<std::string, std::string> values{{"FILE", file},
                                            {"CONFIG", shell_word("configFile=" + file)},
                                            {"KIND", w.kind},
                                            {"DATA", w.request.train},
                                            {"FOUND", s.found},
                                            {"NAME", fs::path(w.request.name).filename().string()},
                                            {"COMMANDS", tested ? "Train:Test" : "Train"},
                                            {"NETWORK", indented(s.network, 8)},
                                            {"SGD", indented(s.sgd, 8)},
                                            {"TRAIN", indented(s.train_reader, 8)},
                                            {"TEST", indented(s.test_reader, 8)}};
  return filled(std::string(kConfig) + (tested ? kTest : ""), values);
}

int make(const Words& w) {
  const auto kind = std::ranges::find_if(kKinds, [&](const Kind& k) { return w.kind == k.name; });
  if (kind == std::end(kKinds))
    throw Error(fmt::format("new: there is no kind '{}'\nfix: {}", w.kind,
                            did_you_mean(w.kind, {"mnist", "images", "text", "sequence", "table"},
                                         "mnist, images, text, sequence or table")));
  if (!w.request.label.empty() && !kind->has_label)
    throw Error(fmt::format("new: --label has no meaning for {}\nfix: leave it out", w.kind));
  check_names(w);
  Starter s = kind->look(w.request);
  s.files.emplace_back(w.request.name + ".cntk", text_of(w, s));
  for (const auto& [path, text] : s.files)
    if (fs::exists(path) && !w.force)
      throw Error(fmt::format("new: '{}' is there already\nfix: --name another, or --force to overwrite it", path));
  std::error_code ignored;  // write_file says what cannot be written
  fs::create_directories(fs::path(w.request.name).parent_path(), ignored);
  for (const auto& [path, text] : s.files) {
    write_file(path, [&](std::ostream& out) { out << text; });
    fmt::print("{} is written\n", path);
  }
  fmt::print("{}\nnext: trainer {}\n", s.found, shell_word(fmt::format("configFile={}.cntk", w.request.name)));
  return 0;
}

}  // namespace

std::string filled(std::string text, const std::map<std::string, std::string>& values) {
  for (std::size_t at = text.find('@'); at != text.npos; at = text.find('@', at)) {
    const auto end = text.find('@', at + 1);
    if (end == text.npos) break;
    const auto value = values.find(text.substr(at + 1, end - at - 1));
    if (value == values.end()) {
      ++at;
      continue;
    }
    text.replace(at, end + 1 - at, value->second);
    at += value->second.size();
  }
  return text;
}

std::int64_t epochs_for(std::int64_t updates, std::int64_t samples, std::int64_t minibatch) {
  return std::clamp<std::int64_t>(updates * minibatch / std::max<std::int64_t>(samples, 1), 3, 100);
}

void fail_at(const std::string& path, std::int64_t line, const std::string& what, const std::string& fix) {
  throw Error(fmt::format("{}{}: error: {}\nfix: {}", path, line > 0 ? fmt::format(":{}", line) : "", what, fix));
}

void each_line(const std::string& path, const std::function<void(std::string_view, std::int64_t)>& use) {
  if (fs::is_directory(path)) throw Error(fmt::format("new: '{}' is a folder\nfix: name a file", path));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(fmt::format("new: cannot read '{}'\nfix: check the path", path));
  std::string line;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (number == 1) line.erase(0, byte_order_mark_size(line));
    use(line, number);
  }
}

bool as_number(std::string_view text, double& value) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

int run(int argc, const char* const* argv) {
  try {
    const Words w = read_words(argc, argv);
    if (w.help) return std::fputs(kUsage, stdout), 0;
    return make(w);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return kWrongConfiguration;
  }
}

}  // namespace tutti::starter
