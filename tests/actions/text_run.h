// SPDX-License-Identifier: Apache-2.0
// text_run.h -- training runs on small text files, in which every sample has a number of its own, so that an epoch line
// tells which samples an epoch has used.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "train/container.h"
#include "train_run.h"

namespace tutti::actions {

struct Kind {
  const char* name;
  bool sparse, sequences;
  int dimension;  // of the features
  const char* hidden;
};
constexpr Kind kDense{"dense", false, false, 3, "DenseLayer {6, activation = ReLU}"};
constexpr Kind kSparse{"sparse", true, false, 40, "DenseLayer {6, activation = ReLU}"};
constexpr Kind kSequences{"sequences", false, true, 3, "RecurrentLSTMLayer {4}"};

class TextRun : public TrainRun {
 protected:
  // Sequences have 1 to 9 samples. From sample `broken` on the network comes to no number.
  void write_data(const Kind& kind, int samples, int broken = -1) {
    std::mt19937 random(static_cast<unsigned>(samples));
    std::ofstream out(path("data"));
    marks_ = 0;
    mark_of_.clear();
    for (int i = 0, sequence = 0, left = 0; i < samples; ++i) {
      if (left-- == 0) ++sequence, left = static_cast<int>(random() % 9);
      if (kind.sequences) out << sequence << ' ';
      out << "|x";
      for (int k = 0; k < 3; ++k) {
        const double value = static_cast<double>(random() % 200) / 100 - 1;
        if (kind.sparse) out << ' ' << 13 * k + static_cast<int>(random() % 13) << ':';
        out << (kind.sparse ? "" : " ") << value;
      }
      const int mark = static_cast<int>(random() % 400);
      marks_ += mark * mark;
      mark_of_.push_back(mark * mark);
      out << (random() % 2 ? " |y 1 0" : " |y 0 1") << " |m " << (broken >= 0 && i >= broken ? 1000 : mark) << '\n';
    }
  }

  // Features of -1, 0 and 1.
  void write_whole_numbers(int samples) {
    std::mt19937 random(7);
    std::ofstream out(path("data"));
    for (int i = 0; i < samples; ++i) {
      out << "|x";
      for (int k = 0; k < 3; ++k) out << ' ' << static_cast<int>(random() % 3) - 1;
      out << (random() % 2 ? " |y 1 0" : " |y 0 1") << " |m 0\n";
    }
  }

  // Without dropout, in a random order.
  std::string config(const Kind& kind, const std::string& model, int minibatch, int epochs) const {
    return fmt::format(R"(
command = Train
modelPath = "{}"
Train = [
  BrainScriptNetworkBuilder = [
    x = {}Input {{{}}}
    y = Input {{2}}
    m = Input {{1}}
    z = LinearLayer {{2}} ({} (x)) + Exp (m - Constant (500)) * Constant (0)
    ce = CrossEntropyWithSoftmax (y, z)
    mark = SquareError (m, m * Constant (0))
    criterionNodes = (ce) ; evaluationNodes = (mark) ; outputNodes = (z)
  ]
  SGD = [ maxEpochs = {} ; minibatchSize = {} ; learningRatesPerMB = 0.1 ]
  reader = [ readerType = CNTKTextFormatReader ; file = "{}"
    input = [ x = [ dim = {} ; format = {} ] ; y = [ dim = 2 ; format = dense ] ; m = [ dim = 1 ; format = dense ] ] ]
]
)",
                       path(model), kind.sparse ? "Sparse" : "", kind.dimension, kind.hidden, epochs, minibatch,
                       path("data"), kind.dimension, kind.sparse ? "sparse" : "dense");
  }

  // The largest difference of two models in any number.
  double distance(const std::string& a, const std::string& b) const {
    const ContainerReader first(path(a), "model"), second(path(b), "model");
    double most = 0;
    for (const auto& [name, entry] : first.entries()) {
      if (entry.type != EntryType::floats) continue;
      std::vector<float> x(entry.bytes / sizeof(float)), y(x.size());
      first.floats(name, x), second.floats(name, y);
      for (std::size_t i = 0; i < x.size(); ++i)
        most = std::max(most, std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
    }
    return most;
  }

  long long marks_ = 0;             // what an epoch line says of all samples of the file
  std::vector<long long> mark_of_;  // and of each
};

}  // namespace tutti::actions
