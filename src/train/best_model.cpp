// SPDX-License-Identifier: Apache-2.0
#include "train/best_model.h"

#include <fmt/format.h>

#include "train/training.h"
#include "tutti/log.h"

namespace tutti {

void BestModel::archive(Archive& a) {
  if (a.loading() ? !a.has("best/epoch") : epoch == 0 && epochs_since == 0) return;
  a("best/value", value);
  a("best/epoch", epoch);
  a("best/epochs since", epochs_since);
}

std::string best_model_name(const std::string& model_path) { return model_path + ".best"; }

bool judge_patience(Training& t, const ControlCriterion& control) {
  if (!t.sgd.keep_best && t.sgd.patience == 0) return false;
  BestModel& best = t.best;
  if (control.samples == 0) return false;
  const double value = control.value;
  const std::int64_t epoch = t.progress.epoch + 1;
  if (value < best.value) {
    const std::string before =
        best.epoch > 0 ? fmt::format(" ({:.8g} in epoch {} before)", best.value, best.epoch) : "";
    const std::string saved =
        t.sgd.keep_best ? fmt::format("; saved as '{}'", best_model_name(t.model_path)) : std::string();
    log::line(fmt::format("Best model: epoch {}, {} = {:.8g}{}{}", epoch, control.name, value, before, saved));
    best = {value, epoch, 0, t.sgd.keep_best};
    return false;
  }
  ++best.epochs_since;
  const std::string still = best.epoch > 0 ? fmt::format("the {:.8g} of epoch {}", best.value, best.epoch)
                                           : std::string("any number: it is not finite in any epoch so far");
  const std::string limit = t.sgd.patience > 0 ? fmt::format(" (patience = {})", t.sgd.patience) : std::string();
  log::line(fmt::format("Best model: epoch {}, {} = {:.8g}, is not better than {}; {} epoch{} without improvement{}",
                        epoch, control.name, value, still, best.epochs_since, best.epochs_since == 1 ? "" : "s",
                        limit));
  if (t.sgd.patience == 0 || best.epochs_since < t.sgd.patience) return false;
  log::line(fmt::format("Training ends after epoch {} of {}: no improvement in {} epoch{}, which is patience.", epoch,
                        t.sgd.max_epochs, best.epochs_since, best.epochs_since == 1 ? "" : "s"));
  best.epochs_since = 0;  // a run that is continued with more epochs has as many to improve again
  return true;
}

}  // namespace tutti
