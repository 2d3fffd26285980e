// SPDX-License-Identifier: Apache-2.0
#include "actions/later.h"

#include <fmt/format.h>

#include "tutti/log.h"

namespace tutti::actions {
namespace {

class LaterAction final : public Action {
 public:
  LaterAction(const ActionContext& context, ActionMaker make, std::string settings, LaterTraining training)
      : context_(context.for_running()),
        make_(std::move(make)),
        seed_(*context.seed),
        settings_(std::move(settings)),
        training_(std::move(training)) {}

  std::string settings() const override { return settings_; }
  std::string trained_model() const override { return training_.model; }
  bool resumes() const override { return training_.resumes; }
  void run() override {
    Problems problems;
    config::Notices notices;
    ActionContext now = context_;
    now.problems = &problems, now.notices = &notices, now.seed = &seed_;
    const auto action = make_(now);
    problems.throw_if_any();
    if (!action) throw Error("another rank failed to start this action");
    for (const auto& line : notices.lines) log::warning(line);
    log::line(action->settings());
    action->run();
  }

 private:
  ActionContext context_;
  ActionMaker make_;
  std::int64_t seed_;
  std::string settings_;
  LaterTraining training_;
};

}  // namespace

std::unique_ptr<Action> make_later(const ActionContext& context, ActionMaker make, std::string settings,
                                   std::string file, LaterTraining training) {
  settings += fmt::format("{}  begins     with '{}', which this run makes first", settings.empty() ? "" : "\n", file);
  return std::make_unique<LaterAction>(context, std::move(make), std::move(settings), std::move(training));
}

}  // namespace tutti::actions
