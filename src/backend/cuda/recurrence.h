// SPDX-License-Identifier: Apache-2.0
// recurrence.h -- recurrent layers on a GPU: step by step or by cuDNN, whichever was faster when measured.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/cudnn_recurrence.h"

namespace tutti::cuda {

class Recurrence {
 public:
  Recurrence(CudaTensors&, const std::string& device);

  std::size_t workspace(const RecurrentLayer&);
  void tell(const RecurrentLayer&);
  void forward(const RecurrentLayer&);
  void backward(const RecurrentLayer&, const RecurrentLayerGradient&);

 private:
  // Null: the layer runs step by step.
  CudnnRecurrence* library(const RecurrentLayer&);
  CudnnRecurrence* library_now(const RecurrentLayer&);  // for a call that is made, or captured
  CudnnRecurrence& layers_of(int algorithm, const RecurrentLayer&);
  Algorithms::Choice measured(const RecurrentLayer&);

  CudaTensors& backend_;
  Cudnn cudnn_;
  Algorithms algorithms_;
  CudnnRecurrenceScratch scratch_;
  std::map<std::tuple<int, CellKind, std::size_t, std::size_t>, std::unique_ptr<CudnnRecurrence>> layers_;
};

}  // namespace tutti::cuda
