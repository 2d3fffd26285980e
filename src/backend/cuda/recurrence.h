// SPDX-License-Identifier: Apache-2.0
// recurrence.h -- recurrent layers on a GPU: step by step or by cuDNN, whichever was faster when it was measured.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "backend/cuda/algorithms.h"
#include "backend/cuda/cudnn_lstm.h"

namespace tutti::cuda {

class Recurrence {
 public:
  Recurrence(CudaBackend&, const std::string& device);

  std::size_t room(const LstmLayer&);
  void tell(const LstmLayer&);
  void forward(const LstmLayer&);
  void backward(const LstmLayer&, const LstmLayerGradient&);

 private:
  // Null: the layer goes step by step.
  CudnnLstm* library(const LstmLayer&);
  CudnnLstm* library_now(const LstmLayer&);  // for a call that is made, or recorded
  CudnnLstm& layers_of(int algorithm, const LstmLayer&);
  Algorithms::Choice measured(const LstmLayer&);

  CudaBackend& backend_;
  Cudnn cudnn_;
  Algorithms algorithms_;
  CudnnLstmScratch scratch_;
  std::map<std::tuple<int, std::size_t, std::size_t>, std::unique_ptr<CudnnLstm>> layers_;
};

}  // namespace tutti::cuda
