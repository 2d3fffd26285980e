// SPDX-License-Identifier: Apache-2.0
// `trainer import MODEL OUT`: a model of CNTK as one of this program. `trainer import WEIGHTS OUT --into MODEL`: the
// network of a model with other weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "actions/model_commands.h"
#include "cntk/checkpoint.h"
#include "cntk/model.h"
#include "interchange/tensor_file.h"
#include "train/file.h"
#include "train/model_file.h"
#include "tutti/error.h"

namespace tutti::actions {
namespace {

constexpr std::size_t most_reported = 10;

void check_file(const std::string& path) {
  try {
    File::open(path).size();
  } catch (const Error& e) {
    throw Error(fmt::format("{}\nfix: check the path", e.what()));
  }
}

// Saves the network of the graph, after `change` has changed its values.
void save_network(graph::Graph graph, const std::string& of, const std::string& to,
                  const std::function<void(ModelView&)>& change) {
  try {
    Network network(std::move(graph), NetworkOptions{});
    network.initialize_parameters();
    ModelView view = view_model(network);
    change(view);
    create_directories(directory_of(to));
    save_model(to, view, true);
  } catch (const ConfigError& e) {
    throw Error(fmt::format("the network in '{}': {}", of, e.what()));
  }
}

std::string import_cntk(const std::string& from, const std::string& to) {
  cntk::Model m = cntk::read_model(from);
  std::string text;
  for (const std::string& note : m.notes) text += fmt::format("note: {}\n", note);
  save_network(std::move(m.graph), from, to, [](ModelView&) {});
  return text + fmt::format("'{}' (model of CNTK, format version {}) is saved as '{}'.\n", from, m.version, to);
}

// Axes of one element do not matter: a bias is (50,) in one program and (1, 50) in another.
std::vector<std::uint64_t> without_ones(std::vector<std::uint64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// Batch normalisation's count of samples, under the name of its node; other programs do not have it.
bool is_sample_count(const graph::Graph& g, const std::string& name) {
  const auto node = std::ranges::find(g.nodes, name, &graph::Node::name);
  return node != g.nodes.end() && node->operation == "BatchNormalization";
}

class WeightsImport {
 public:
  WeightsImport(interchange::TensorFile& file, std::string path) : file_(file), path_(std::move(path)) {}

  // Nothing is changed unless all tensors fit.
  void check(const ModelView& view) {
    std::vector<std::string> names;
    for (const ModelValue& v : view.values) {
      names.push_back(v.name);
      const interchange::TensorEntry* e = file_.find(v.name);
      if (e)
        check_tensor(v, *e);
      else if (is_sample_count(*view.graph, v.name))
        notes_ += fmt::format("note: '{}' is not in '{}': it stays as it is\n", v.name, path_);
      else
        wrong_.push_back(fmt::format("there is no tensor '{}', which the network has as {}", v.name, shape_of(v)));
    }
    for (const auto& e : file_.entries())
      if (!std::ranges::binary_search(names, e.name))
        wrong_.push_back(fmt::format("the network has no parameter '{}'{}", e.name, suggestion(e.name, names)));
    if (wrong_.empty()) return;
    std::string text = fmt::format("'{}' does not fit the network:", path_);
    for (std::size_t i = 0; i < std::min(wrong_.size(), most_reported); ++i) text += "\n  " + wrong_[i];
    if (wrong_.size() > most_reported) text += fmt::format("\n  and {} more", wrong_.size() - most_reported);
    throw Error(text + "\nfix: trainer export MODEL --safetensors FILE shows the names and shapes that are expected");
  }

  void fill(ModelView& view) {
    for (ModelValue& v : view.values)
      if (const interchange::TensorEntry* e = file_.find(v.name)) {
        std::ranges::copy(file_.read(*e), v.values.begin());
        if (e->kind == interchange::NumberKind::float64) note_rounding(v);
      }
  }

  const std::string& notes() const { return notes_; }

 private:
  static std::string shape_of(const ModelValue& v) {
    return interchange::shape_text(interchange::reversed_axes(v.shape));
  }

  static std::string suggestion(const std::string& name, const std::vector<std::string>& names) {
    const std::string near = nearest(name, names);
    return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
  }

  void note_rounding(const ModelValue& v) {
    const auto infinite = std::ranges::count_if(v.values, [](float x) { return std::isinf(x); });
    notes_ += fmt::format("note: '{}' is float64 and rounded to float32{}\n", v.name,
                          infinite ? fmt::format(", where {} of its values are infinite", infinite) : "");
  }

  void check_tensor(const ModelValue& v, const interchange::TensorEntry& e) {
    const auto expected = interchange::reversed_axes(v.shape);
    if (without_ones(e.shape) != without_ones(expected)) {
      const bool turned = std::vector(expected.rbegin(), expected.rend()) == e.shape;
      wrong_.push_back(fmt::format("'{}' is {}, the network has {}{}", v.name, interchange::shape_text(e.shape),
                                   interchange::shape_text(expected), turned ? ": transpose it" : ""));
    } else if (!interchange::is_float(e.kind)) {
      wrong_.push_back(fmt::format("'{}' holds {}, not floating-point numbers", v.name, interchange::name_of(e.kind)));
    }
  }

  interchange::TensorFile& file_;
  std::string path_;
  std::vector<std::string> wrong_;
  std::string notes_;
};

std::string import_weights(const std::string& from, const std::string& to, const std::string& into) {
  const auto file = interchange::open_tensor_file(from);
  WeightsImport import(*file, from);
  save_network(model_graph(into), into, to, [&](ModelView& view) {
    import.check(view);
    import.fill(view);
  });
  return import.notes() + fmt::format("The network of '{}' with the {} tensors of '{}' is saved as '{}'.\n", into,
                                      file->entries().size(), from, to);
}

[[noreturn]] void refuse_own(const std::string& from, const std::string& kind) {
  throw Error(fmt::format("'{}' is {}", from,
                          kind == "model" ? "a model of this program already\nfix: copy it"
                                          : "a checkpoint of this program\nfix: import a model of CNTK, or weights"));
}

std::string run_import(const CommandWords& words) {
  const std::string &from = words.files[0], &to = words.files[1], into = words.value("--into");
  refuse_same_file(from, to);
  check_file(from);
  if (cntk::is_checkpoint(from))
    throw Error(
        fmt::format("'{}' is a checkpoint\nfix: import the model; checkpoints of CNTK are read as they are, "
                    "beside their model",
                    from));
  const bool of_cntk = cntk::is_model(from);
  if (of_cntk && !into.empty())
    throw Error(fmt::format("'{}' is a model of CNTK, with a network of its own\nfix: import it without --into", from));
  if (of_cntk) return import_cntk(from, to);
  if (const std::string kind = container_kind(from); !kind.empty()) refuse_own(from, kind);
  if (into.empty())
    throw Error(
        fmt::format("'{}' is no model of CNTK\nfix: weights (safetensors, npz) need a network: trainer import "
                    "{} {} --into MODEL",
                    from, from, to));
  return import_weights(from, to, into);
}

}  // namespace

graph::Graph model_graph(const std::string& path) {
  check_file(path);
  if (cntk::is_checkpoint(path) || (!cntk::is_model(path) && kind_of(path) != "model"))
    throw Error(fmt::format("'{}' is a checkpoint\nfix: name the model, without .ckp", path));
  return load_trained(path);
}

ModelCommand import_command() {
  return {{"import",
           "FILE OUT",
           2,
           "writes OUT, a model of this program, from a model of CNTK, or from weights (safetensors, npz)",
           {{"--into", "MODEL", "the network that takes the weights: names and shapes must match (docs/export.md)"}}},
          run_import};
}

}  // namespace tutti::actions
