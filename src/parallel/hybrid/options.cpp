// SPDX-License-Identifier: Apache-2.0
#include "parallel/hybrid/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr const char* words = "replicate, shard, single or auto";

// False for another word.
bool parse(const std::string& word, std::optional<Placement>& placement) {
  if (word == "auto") return placement.reset(), true;
  for (const Placement p : {Placement::replicate, Placement::shard, Placement::single})
    if (word == to_string(p)) return placement = p, true;
  return false;
}

// "model.fc6.W" answers to its name, to "model.fc6", and to its number in the table, from 1.
bool answers_to(const DenseLayer& layer, std::size_t number, const std::string& name) {
  const std::size_t dot = layer.weight.rfind('.');
  return layer.weight == name || (dot != std::string::npos && layer.weight.substr(0, dot) == name) ||
         std::to_string(number) == name;
}

}  // namespace

void ModelParallelOptions::describe(config::Fields& f) {
  std::string word = dense ? to_string(*dense) : "auto";
  f("dense", word,
    "where dense layers lie: replicate = on every rank, shard = a part on each, single = on rank 0, auto");
  if (!parse(word, dense))
    f.problem("dense", fmt::format("dense cannot be '{}'", word), fmt::format("write {}", words));
  f.pairs("layers", layers,
          "the same for single layers, by the name of the weight or the number in the table of the log");
  for (const auto& l : layers)
    if (std::optional<Placement> p; !parse(l.value, p))
      f.problem("layers", fmt::format("layers: '{}' cannot be '{}'", l.key, l.value), fmt::format("write {}", words));
}

bool ModelParallelOptions::chooses() const {
  return !dense || std::any_of(layers.begin(), layers.end(), [](const auto& l) { return l.value == "auto"; });
}

std::vector<PlacedLayer> place_dense_layers(const ModelParallelOptions& o, const std::vector<DenseLayer>& layers,
                                            int ranks, Problems& problems) {
  std::vector<PlacedLayer> placed;
  std::vector<bool> used(o.layers.size(), false);
  for (const DenseLayer& layer : layers) {
    std::optional<Placement> wanted = o.dense;
    SourcePos where;
    for (std::size_t i = 0; i < o.layers.size(); ++i)
      if (answers_to(layer, placed.size() + 1, o.layers[i].key))
        parse(o.layers[i].value, wanted), used[i] = true, where = o.layers[i].where;
    const bool narrow = layer.out < static_cast<std::size_t>(ranks);
    if (wanted == Placement::shard && narrow && where.source)
      problems.add(Diagnostic{where,
                              fmt::format("'{}' has {} outputs, fewer than the {} ranks that would share it",
                                          layer.weight, layer.out, ranks),
                              "write replicate or single for this layer"});
    if (wanted == Placement::shard && narrow) wanted = Placement::replicate;
    placed.push_back({layer, wanted.value_or(Placement::replicate), !wanted});
  }
  std::vector<std::string> names;
  for (const DenseLayer& l : layers) names.push_back(l.weight);
  for (std::size_t i = 0; i < o.layers.size(); ++i) {
    if (used[i]) continue;
    const std::string near = nearest(o.layers[i].key, names);
    problems.add(Diagnostic{
        o.layers[i].where, fmt::format("ModelParallel: the network has no dense layer '{}'", o.layers[i].key),
        names.empty()
            ? std::string("it has no dense layer outside of loops")
            : fmt::format("{}the dense layers are: {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                          fmt::join(names, ", "))});
  }
  return placed;
}

}  // namespace tutti
