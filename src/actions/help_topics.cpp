// SPDX-License-Identifier: Apache-2.0
#include "actions/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "actions/action.h"
#include "brainscript/keras.h"
#include "brainscript/simple_network.h"
#include "config/table.h"
#include "config/text.h"
#include "config/top_level.h"
#include "parallel/options.h"
#include "train/sgd_options.h"
#include "train/text_output.h"
#include "tutti/reader.h"

namespace tutti::actions {
namespace {

const std::string in_sgd = "Train=[SGD=[{}]]";
const std::string in_parallel = "Train=[SGD=[ParallelTrain=[{}]]]";

template <class Options>
Topic topic(std::string name, std::string help, std::string place) {
  return {std::move(name), std::move(help), std::move(place), [](config::Fields& f) {
            Options options;
            options.describe(f);
          }};
}

// The name of a command is its action's, so that the same key of two actions has two places.
std::string in_command(const std::string& action) {
  if (action == "train") return "Train=[{}]";
  std::string name = action;
  if (name[0] >= 'a' && name[0] <= 'z') name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return fmt::format("{}=[action={};{{}}]", name, action);
}

// "Train=[{}]" with `inner` at its place.
std::string within(const std::string& place, const std::string& inner) {
  std::string out = place;
  return out.replace(out.find("{}"), 2, inner);
}

template <class Options>
Topic method(const std::string& name, std::string help) {
  return topic<Options>(name, "block in ParallelTrain: " + std::move(help), within(in_parallel, name + "=[{}]"));
}

void collect(const config::Table& table, const std::string& block, const std::string& place,
             std::vector<KeyHelp>& found) {
  const auto add = [&](const std::string& key, const std::string& line) {
    found.push_back({key, block, fmt::format("  {}\n    {}\n", within(place, key + "=..."), line)});
  };
  for (const config::Row& r : table.rows) {
    if (r.nested && !r.named) collect(*r.nested, r.key, within(place, r.key + "=[{}]"), found);
    if (r.named) collect(*r.nested, r.key, within(place, r.key + "=[NAME=[{}]]"), found);
    add(r.key, fmt::format("{}  {}", config::type_text(r), r.doc));
    for (const auto& a : table.aliases)
      if (config::equal_keys(a.key, r.key)) add(a.old_key, fmt::format("another name of {}: {}", r.key, r.doc));
  }
  for (const auto& [key, because] : table.no_effect) add(key, "accepted without effect: " + because);
}

}  // namespace

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all = [] {
    std::vector<Topic> t{topic<config::TopLevel>("top", "settings outside of all blocks", "{}")};
    for (const auto& entry : action_table())
      t.push_back({entry.names[0], entry.help, in_command(entry.names[0]), entry.describe});
    t.push_back(topic<SgdOptions>("SGD", "learning rates, momentum, minibatches, epochs", in_sgd));
    t.push_back(topic<AutoAdjustOptions>("AutoAdjust", "block in SGD: learning rates that adjust themselves",
                                         within(in_sgd, "AutoAdjust=[{}]")));
    t.push_back(topic<MetricsOptions>("metrics", "block in SGD: files with the values of the log",
                                      within(in_sgd, "metrics=[{}]")));
    t.push_back(topic<LearningRateSchedule>("LearningRateSchedule",
                                            "block in SGD: warm-up, cosine, steps or polynomial of the learning rate",
                                            within(in_sgd, "LearningRateSchedule=[{}]")));
    t.push_back(topic<ParallelTrainOptions>("ParallelTrain", "block in SGD: how the ranks work together", in_parallel));
    t.push_back(topic<ModelParallelOptions>("ModelParallel", "block in SGD: dense layers divided among the ranks",
                                            within(in_sgd, "ModelParallel=[{}]")));
    for_each_method([&]<class Options>() {
      if constexpr (!std::is_same_v<Options, NoExchange>) t.push_back(method<Options>(Options::name, Options::help));
    });
    t.push_back(method<ServerOptions>("ASGD", "the same as DataParallelASGD under its second name"));
    t.push_back(topic<brainscript::SimpleNetworkOptions>("SimpleNetworkBuilder",
                                                         "feed-forward networks from a list of layer sizes",
                                                         "Train=[SimpleNetworkBuilder=[{}]]"));
    t.push_back(topic<brainscript::keras::Options>("KerasNetworkBuilder", "networks from the JSON files of Keras",
                                                   "Train=[KerasNetworkBuilder=[{}]]"));
    for (const auto& reader : reader_types())
      t.push_back({reader.name, reader.help, "Train=[reader=[{}]]", reader.describe});
    t.push_back(topic<OutputFormat>("format", "block of the write action: how the text looks", "Write=[format=[{}]]"));
    return t;
  }();
  return all;
}

std::vector<KeyHelp> all_keys() {
  std::vector<KeyHelp> found;
  for (const auto& t : topics()) {
    std::vector<KeyHelp> of_block;
    collect(*config::tabulate(t.describe), t.name, t.place, of_block);
    // A block within another one is described in both.
    for (auto& k : of_block)
      if (std::none_of(found.begin(), found.end(), [&](const KeyHelp& f) { return f.text == k.text; }))
        found.push_back(std::move(k));
  }
  return found;
}

}  // namespace tutti::actions
