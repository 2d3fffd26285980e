// SPDX-License-Identifier: Apache-2.0
// The table of actions. A new action is a maker, a describe() and a row here.
#include <algorithm>

#include "actions/action.h"
#include "actions/model_actions.h"
#include "actions/svd_action.h"
#include "actions/test_actions.h"
#include "actions/train_action.h"
#include "actions/word_classes.h"
#include "actions/write_actions.h"
#include "config/text.h"

namespace tutti::actions {
namespace {

template <class Options>
std::function<void(config::Fields&)> described() {
  return [](config::Fields& f) {
    Options options;
    options.describe(f);
  };
}

}  // namespace

const std::vector<ActionEntry>& action_table() {
  static const std::vector<ActionEntry> table = {
      {{"train", "trainRNN"},
       true,
       make_train_action,
       described<TrainOptions>(),
       "trains a network; needs SGD, reader, modelPath and a network"},
      {{"test", "eval"}, true, make_test_action, described<EvaluateOptions>(), "evaluates a model over a data set"},
      {{"cv"},
       true,
       make_cv_action,
       described<CvOptions>(),
       "evaluates the models of several epochs and reports the best one"},
      {{"write"},
       false,
       make_write_action,
       described<WriteOptions>(),
       "writes node values per sample, as text or as HTK files"},
      {{"edit"},
       false,
       make_edit_action,
       described<EditOptions>(),
       "writes the model that a network description or an editing script (editPath) produces"},
      {{"bnstat"},
       true,
       make_batch_statistics_action,
       described<BatchStatisticsOptions>(),
       "recomputes the statistics of batch normalisation"},
      {{"SVD"},
       false,
       make_svd_action,
       described<SvdOptions>(),
       "replaces weight matrices of a model with products of two smaller matrices"},
      {{"writeWordAndClass"},
       false,
       make_word_class_action,
       described<WordClassOptions>(),
       "writes the vocabulary and the word classes of a text"},
      {{"dumpNode", "dumpNodes"},
       false,
       make_dump_node_action,
       described<DumpNodeOptions>(),
       "prints a model's nodes and parameters"},
  };
  return table;
}

const ActionEntry* find_action(const std::string& name) {
  const auto same = [&](const std::string& other) { return config::equal_keys(name, other); };
  for (const auto& entry : action_table())
    if (std::any_of(entry.names.begin(), entry.names.end(), same)) return &entry;
  return nullptr;
}

}  // namespace tutti::actions
