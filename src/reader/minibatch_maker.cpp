// SPDX-License-Identifier: Apache-2.0
// Joins the walk over the global order with the data of the source.
#include "reader/minibatch_maker.h"

namespace tutti::reader {

void MinibatchMaker::start(const EpochPlan& plan) {
  source_->begin_epoch();
  if (!walker_) walker_.emplace(source_->index(), randomization_);
  walker_->start(plan);
}

bool MinibatchMaker::make(Share& share) {
  if (!walker_->next(step_)) return false;
  share.clear();
  source_->begin_sweep(step_.sweep);
  source_->read(step_.mine, share);
  Batch& batch = share.finish();
  batch.global_samples = step_.global_samples;
  batch.global_columns = step_.global_columns;
  batch.position = step_.position;
  return true;
}

}  // namespace tutti::reader
