// SPDX-License-Identifier: Apache-2.0
#include "actions/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <vector>

#include "actions/action.h"
#include "actions/device.h"
#include "brainscript/keras.h"
#include "brainscript/simple_network.h"
#include "comm/session.h"
#include "config/text.h"
#include "strategy/options.h"
#include "train/sgd_options.h"
#include "train/text_output.h"
#include "tutti/backend.h"
#include "tutti/reader.h"

namespace tutti::actions {
namespace {

struct Topic {
  std::string name, help;
  std::function<void(config::Fields&)> describe;
};

template <class Options>
Topic topic(std::string name, std::string help) {
  return {std::move(name), std::move(help), [](config::Fields& f) {
            Options options;
            options.describe(f);
          }};
}

std::vector<Topic> topics() {
  std::vector<Topic> all{topic<config::TopLevel>("top", "settings outside of all blocks")};
  for (const auto& entry : action_table()) all.push_back({entry.names[0], entry.help, entry.describe});
  all.push_back(topic<SgdOptions>("SGD", "learning rates, momentum, minibatches, epochs"));
  all.push_back(topic<AutoAdjustOptions>("AutoAdjust", "block in SGD: learning rates that adjust themselves"));
  all.push_back(topic<ParallelTrainOptions>("ParallelTrain", "block in SGD: how the ranks work together"));
  all.push_back(
      topic<DataParallelOptions>("DataParallelSGD", "block in ParallelTrain: gradients exchanged each minibatch"));
  all.push_back(
      topic<ModelAveragingOptions>("ModelAveragingSGD", "block in ParallelTrain: weights averaged every so often"));
  all.push_back(
      topic<BlockMomentumOptions>("BlockMomentumSGD", "block in ParallelTrain: averaged weights smoothed by blocks"));
  all.push_back(topic<AsaOptions>("ASA", "block in ParallelTrain: all-to-all, sum, all-gather in every minibatch"));
  all.push_back(topic<ServerOptions>("DataParallelASGD", "block in ParallelTrain: workers and parameter servers"));
  all.push_back(topic<ServerOptions>("ASGD", "the same block under its second name"));
  all.push_back(topic<EasgdOptions>("EASGD", "block in ParallelTrain: elastic averaging around a centre"));
  all.push_back(topic<brainscript::SimpleNetworkOptions>("SimpleNetworkBuilder",
                                                         "feed-forward networks from a list of layer sizes"));
  all.push_back(topic<brainscript::keras::Options>("KerasNetworkBuilder", "networks from the JSON files of Keras"));
  for (const auto& reader : reader_types()) all.push_back({reader.name, reader.help, reader.describe});
  all.push_back(topic<OutputFormat>("format", "block of the write action: how the text looks"));
  return all;
}

}  // namespace

std::string version_text() {
  return fmt::format("Tutti {}: {}, {}, {}", TUTTI_VERSION, mpi_library(), compute_text(), gpu_text());
}

std::string compute_text() { return make_backend("cpu")->name(); }

std::string help_text(const std::string& name) {
  const auto all = topics();
  std::vector<std::string> names;
  for (const auto& t : all) {
    if (config::equal_keys(t.name, name))
      return fmt::format("{}\n\n{}", t.help, config::help_fields(t.name, t.describe));
    names.push_back(t.name);
  }
  std::string list = "help=NAME explains one of:\n";
  for (const auto& t : all) list += fmt::format("  {:22} {}\n", t.name, t.help);
  if (config::equal_keys(name, "list")) return list;
  const std::string near = nearest(name, names);
  throw ConfigError({}, fmt::format("there is no help on '{}'", name),
                    near.empty() ? fmt::format("there is help on: {}", fmt::join(names, ", "))
                                 : fmt::format("did you mean help={}? (help=list shows all)", near));
}

}  // namespace tutti::actions
