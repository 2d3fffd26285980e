// SPDX-License-Identifier: Apache-2.0
// class_loss.h -- the cross entropy of words that are grouped into classes (language models): a softmax over the
// classes and one over the words of the right class, so that a large vocabulary costs little. Numbers of classes and
// words are those of the labels that the readers of words make. Constant expressions, so that kernels of GPUs take
// them, too.
#pragma once

#include <cstddef>

namespace tutti {

// All matrices lie column after column.
struct ClassLoss {
  enum class Operand { state, weight, scores };  // those with a gradient
  static constexpr std::size_t label_floats = 4;

  std::size_t columns = 0, hidden = 0, words = 0, classes = 0;
  const float* label = nullptr;   // [4 x columns]: word, its class, first word of the class, first word behind it
  const float* state = nullptr;   // [hidden x columns]
  const float* weight = nullptr;  // [hidden x words]
  const float* scores = nullptr;  // [classes x columns], before the softmax
};

// One column of the labels. Labels that do not fit the sizes are not valid; their loss is not a number.
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
