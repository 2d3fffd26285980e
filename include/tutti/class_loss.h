// SPDX-License-Identifier: Apache-2.0
// class_loss.h -- cross entropy with word classes, for language models: a softmax over the classes and one over the
// words of the true class, so a large vocabulary stays cheap. The readers of words deliver the labels with word and
// class numbers. Functions are constexpr so that GPU kernels can use them.
#pragma once

#include <cstddef>

namespace tutti {

// All matrices are column-major.
struct ClassLoss {
  enum class Operand { state, weight, scores };  // those with a gradient
  static constexpr std::size_t label_floats = 4;

  std::size_t columns = 0, hidden = 0, words = 0, classes = 0;
  const float* label =
      nullptr;  // [4 x columns]: word, its class, first word of the class, one past the last word of the class
  const float* state = nullptr;   // [hidden x columns]
  const float* weight = nullptr;  // [hidden x words]
  const float* scores = nullptr;  // [classes x columns], before the softmax
};

// One column of labels. Labels outside the given sizes are invalid; their loss is NaN.
struct ClassLabel {
  std::size_t word = 0, word_class = 0, first = 0, last = 0;
  bool valid = false;

  constexpr ClassLabel(const ClassLoss& l, std::size_t column) {
    const float* v = l.label + column * ClassLoss::label_floats;
    const float words = static_cast<float>(l.words), classes = static_cast<float>(l.classes);
    valid = v[2] >= 0 && v[0] >= v[2] && v[0] < v[3] && v[3] <= words && v[1] >= 0 && v[1] < classes;
    if (!valid) return;
    word = static_cast<std::size_t>(v[0]), word_class = static_cast<std::size_t>(v[1]);
    first = static_cast<std::size_t>(v[2]), last = static_cast<std::size_t>(v[3]);
  }
};

}  // namespace tutti
