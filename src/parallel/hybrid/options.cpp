// SPDX-License-Identifier: Apache-2.0
#include "parallel/hybrid/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

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

constexpr std::size_t no_layer = std::string::npos;

// The layers that match a name: the one with this weight or this number in the table, from 1; otherwise all of which it
// is a prefix, as "model.fc6" and "model" are of "model.fc6.W".
std::vector<std::size_t> layers_named(const std::string& name, const std::vector<DenseLayer>& layers) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i].weight == name || std::to_string(i + 1) == name) return {i};
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (const std::string& w = layers[i].weight;
        w.starts_with(name) && (w[name.size()] == '.' || w[name.size()] == '['))
      found.push_back(i);
  return found;
}

// The key for a layer in `layers`. A key has no brackets: for "h.arrayOfFunctions[0].W" it is "h" if that matches no
// other layer, otherwise the number.
std::string key_of(std::size_t layer, const std::vector<DenseLayer>& layers) {
  const std::string& w = layers[layer].weight;
  if (w.find('[') == w.npos) return w;
  for (std::size_t end = 0; (end = w.find_first_of(".[", end)) != w.npos; ++end) {
    if (layers_named(w.substr(0, end), layers).size() == 1) return w.substr(0, end);
    if (w[end] == '[') break;
  }
  return std::to_string(layer + 1);
}

std::string keys_of(const std::vector<std::size_t>& some, const std::vector<DenseLayer>& layers) {
  std::vector<std::string> all;
  for (const std::size_t i : some) {
    const std::string key = key_of(i, layers);
    all.push_back(key == layers[i].weight ? key : fmt::format("{} ({})", key, layers[i].weight));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

// The layer that an entry of `layers` names. Adds a problem and returns no_layer if not exactly one matches.
std::size_t layer_of(const config::Fields::Pair& entry, const std::vector<DenseLayer>& layers, Problems& problems) {
  const std::vector<std::size_t> found = layers_named(entry.key, layers);
  if (found.size() == 1) return found[0];
  if (found.size() > 1) {
    problems.add(Diagnostic{entry.where,
                            fmt::format("ModelParallel: '{}' matches {} dense layers", entry.key, found.size()),
                            fmt::format("name one of them: {}", keys_of(found, layers))});
    return no_layer;
  }
  std::vector<std::size_t> all(layers.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<std::string> names;
  for (const std::size_t i : all) names.push_back(key_of(i, layers));
  const std::string near = nearest(entry.key, names), hint = near.empty() ? "" : "did you mean '" + near + "'? ";
  problems.add(Diagnostic{entry.where, fmt::format("ModelParallel: the network has no dense layer '{}'", entry.key),
                          layers.empty() ? std::string("it has no dense layer outside of loops")
                                         : hint + "the dense layers are: " + keys_of(all, layers)});
  return no_layer;
}

}  // namespace

void ModelParallelOptions::describe(config::Fields& f) {
  // A block that only names layers leaves the others as they are.
  if (!f.given("dense") && f.given("layers")) dense = Placement::replicate;
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
  std::vector<const config::Fields::Pair*> entries(layers.size(), nullptr);
  for (const auto& entry : o.layers) {
    const std::size_t layer = layer_of(entry, layers, problems);
    if (layer == no_layer) continue;
    if (entries[layer])
      problems.add(Diagnostic{
          entry.where, fmt::format("ModelParallel: '{}' and '{}' are the same layer", entries[layer]->key, entry.key),
          "remove one of them"});
    entries[layer] = &entry;
  }
  std::vector<PlacedLayer> placed;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const DenseLayer& layer = layers[i];
    std::optional<Placement> wanted = o.dense;
    if (entries[i]) parse(entries[i]->value, wanted);
    const bool narrow = layer.out < static_cast<std::size_t>(ranks);
    if (wanted == Placement::shard && narrow && entries[i])
      problems.add(Diagnostic{entries[i]->where,
                              fmt::format("'{}' has {} outputs, fewer than the {} ranks that would share it",
                                          layer.weight, layer.out, ranks),
                              "write replicate or single for this layer"});
    if (wanted == Placement::shard && narrow) wanted = Placement::replicate;
    placed.push_back({layer, wanted.value_or(Placement::replicate), !wanted});
  }
  return placed;
}

}  // namespace tutti
