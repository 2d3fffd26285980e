// SPDX-License-Identifier: Apache-2.0
// `trainer predict MODEL --input ...`: the values of a node for new data, without a config.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "actions/evaluation_network.h"
#include "actions/model_commands.h"
#include "actions/predict_input.h"
#include "actions/predict_output.h"
#include "graph/loops.h"
#include "graph/shapes.h"
#include "train/file.h"
#include "train/metrics/options.h"
#include "train/text_output.h"
#include "tutti/error.h"

namespace tutti::actions {
namespace {

std::string output_format(const CommandWords& words) {
  const std::string to = words.value("--output", "-"), format = words.value("--format");
  const std::string ending = std::filesystem::path(to).extension().string();
  if (format.empty() && !ending.empty() && ending != ".csv" && ending != ".json" && ending != ".npy")
    throw ConfigError({}, fmt::format("--output '{}': no format has the ending '{}'", to, ending),
                      "--output FILE.csv, FILE.json or FILE.npy, or name it: --format csv");
  const std::string chosen = !format.empty() ? format : ending.empty() ? "csv" : ending.substr(1);
  if (chosen != "csv" && chosen != "json" && chosen != "npy")
    throw ConfigError({}, fmt::format("there is no format '{}'", format), "--format csv, json or npy");
  if (chosen == "npy" && to == "-") throw ConfigError({}, "an array needs a file", "--output FILE.npy");
  if (chosen == "npy" && (words.has("--top") || words.has("--classes")))
    throw ConfigError({}, "an array holds values, no names of classes", "--output FILE.csv or FILE.json");
  return chosen;
}

// A CSV file has a column for each class, beside those of the sample and of its best class.
void check_columns(const std::string& path, const std::vector<std::string>& names) {
  std::set<std::string> columns = {"sample", "file", "sequence", "step", "class", "score"};
  const std::size_t others = columns.size();
  for (const std::string& name : names)
    if (!columns.insert(name).second)
      throw Error(
          fmt::format("{}:{}: '{}' would be the name of two columns\nfix: another name, or --top N, or "
                      "--format json",
                      path, columns.size() - others + 1, name));
}

std::vector<std::string> class_names(const CommandWords& words, const std::string& format, const std::string& node,
                                     std::size_t elements) {
  if (!words.has("--classes")) return {};
  const std::string path = words.value("--classes");
  auto names = read_label_mapping(path);
  check_class_names("", path, names.size(), node, elements);
  if (format == "csv" && !words.has("--top")) check_columns(path, names);
  return names;
}

void soften_values(std::vector<float>& values) {
  const float most = *std::ranges::max_element(values);
  double sum = 0;
  for (const float v : values) sum += std::exp(static_cast<double>(v) - most);
  for (float& v : values) v = static_cast<float>(std::exp(static_cast<double>(v) - most) / sum);
}

// Whether the node's values go through sequences.
bool goes_through_sequences(const graph::Graph& g, std::size_t root) {
  for (const std::size_t n : graph::execution_order(g, {root}))
    if (graph::needs_sequences(g.nodes[n].operation) || graph::is_time_slice(g.nodes[n])) return true;
  return false;
}

class Predictor {
 public:
  Predictor(const CommandWords& words)
      : words_(words),
        path_(words.files[0]),
        format_(output_format(words)),
        network_(model_graph(path_), NetworkOptions{}) {
    network_.initialize_parameters();
  }

  std::string run() {
    check_output(words_.value("--output", "-"));
    const auto nodes = chosen_nodes(network_.graph(), path_, listed_names(words_.value("--node")), "--node");
    std::vector<std::string> names;
    for (const std::size_t n : nodes) names.push_back(network_.graph().nodes[n].name);
    if (names.size() != 1)
      throw ConfigError({}, fmt::format("the network has {} outputs: {}", names.size(), fmt::join(names, ", ")),
                        "choose one: --node NODE");
    style_.node = names[0];
    style_.sequences = goes_through_sequences(network_.graph(), nodes[0]);
    const auto inputs = network_.inputs_for(names);
    if (inputs.empty()) refuse_constant();
    const PredictInput input = open_input(words_, network_.graph(), inputs, style_.sequences);
    style_.files = !input.files.empty();
    network_.bind(input.reader->streams());
    const std::int64_t minibatch = whole_number(words_, "--minibatch", 1, style_.files ? 32 : 256);
    network_.plan_evaluation(minibatch, names);
    warn_of_missing_statistics(network_, names);
    input.reader->start_epoch({.minibatch = minibatch});
    while (const Batch* batch = input.reader->next()) write(network_.forward(*batch).at(0), input.files);
    return finish();
  }

 private:
  // Before anything is computed. Files of --input are compared with it when they are opened.
  void check_output(const std::string& to) const {
    for (const std::string& read : {path_, words_.value("--classes"), words_.value("--mean")})
      refuse_same_file(read, to);
    if (to == "-") return;
    if (const std::string why = why_unwritable(to, false); !why.empty())
      throw Error(fmt::format("--output: {}\nfix: name a file that can be written", why));
  }

  [[noreturn]] void refuse_constant() const {
    throw Error(fmt::format("'{}' has one value for all data, not one per sample\nfix: --node NODE", style_.node));
  }

  void open(const Network::Output& output) {
    style_.shape = output.shape;
    style_.classes = class_names(words_, format_, style_.node, output.shape.elements());
    style_.top = static_cast<std::size_t>(whole_number(words_, "--top", 1, 0));
    const std::string to = words_.value("--output", "-");
    if (format_ != "npy" && to != "-") {
      create_directories(directory_of(to));
      file_.open(to, std::ios::binary);
      if (!file_) throw Error(fmt::format("creating '{}': {}\nfix: name another --output", to, std::strerror(errno)));
    }
    std::ostream& out = to == "-" ? static_cast<std::ostream&>(text_) : file_;
    writer_ = format_ == "npy"    ? npy_writer(style_, to)
              : format_ == "json" ? json_writer(style_, out)
                                  : csv_writer(style_, out);
  }

  void write(const Network::Output& output, const std::vector<std::string>& files) {
    if (!output.per_sample) refuse_constant();
    if (!writer_) open(output);
    const auto begins = output.sequence_begin;
    const std::size_t n = output.shape.elements();
    for (std::size_t s = 0; s + 1 < begins.size(); ++s, ++sequence_)
      for (std::int64_t c = begins[s]; c < begins[s + 1]; ++c) {
        const auto values = output.values.subspan(static_cast<std::size_t>(c) * n, n);
        values_.assign(values.begin(), values.end());
        if (words_.has("--softmax")) soften_values(values_);
        writer_->write({samples_, sequence_, c - begins[s],
                        files.empty() ? "" : files.at(static_cast<std::size_t>(sequence_)), values_});
        ++samples_;
      }
  }

  std::string finish() {
    if (!writer_) throw Error("the input has no samples\nfix: check the files of --input");
    writer_->finish();
    const std::string to = words_.value("--output", "-");
    if (to == "-") return text_.str();
    if (file_.is_open() && !file_.flush())
      throw Error(fmt::format("writing '{}' failed (disk full?)\nfix: free space, or name another --output", to));
    return fmt::format("'{}': '{}' of '{}' for {} samples\n", to, style_.node, path_, samples_);
  }

  const CommandWords& words_;
  std::string path_, format_;
  Network network_;
  PredictionStyle style_;
  std::unique_ptr<PredictionWriter> writer_;
  std::ofstream file_;
  std::ostringstream text_;
  std::vector<float> values_;
  std::int64_t sequence_ = 0, samples_ = 0;
};

}  // namespace

ModelCommand predict_command() {
  std::vector<CommandOption> options = input_options();
  const std::vector<CommandOption> others = {
      {"--node", "NODE", "the node whose values are predicted; default: the output node"},
      {"--softmax", "", "turns its values into probabilities"},
      {"--classes", "FILE", "names of the classes, one per line, in the order of the labels"},
      {"--top", "N", "only the N largest values, with their classes"},
      {"--output", "FILE", "where to: FILE.csv, FILE.json or FILE.npy; default: stdout, as CSV"},
      {"--format", "FORMAT", "csv, json or npy, whatever the name of the file"},
      {"--minibatch", "N", "samples at a time; default 256, images 32"}};
  options.insert(options.end(), others.begin(), others.end());
  return {{"predict", "MODEL", 1, "computes the outputs of a model for new data (docs/predict.md)", options},
          [](const CommandWords& words) { return Predictor(words).run(); }};
}

}  // namespace tutti::actions
