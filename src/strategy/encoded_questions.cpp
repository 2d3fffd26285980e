// SPDX-License-Identifier: Apache-2.0
#include "strategy/encoded_questions.h"

#include <algorithm>

#include "base/nap.h"

namespace tutti {

void EncodedQuestions::ask(int desk, std::size_t answer_bytes) {
  questions_.push_back({desk, answer_bytes, codec_.mark()});
  advance();
}

void EncodedQuestions::advance() {
  for (; first_ < questions_.size() && codec_.passed(questions_[first_].mark); ++first_)
    server_.ask(questions_[first_].desk, questions_[first_].answer_bytes);
  if (first_ < questions_.size()) return;
  questions_.clear();
  first_ = 0;
}

bool EncodedQuestions::left(int desk) const {
  return std::none_of(questions_.begin() + static_cast<std::ptrdiff_t>(first_), questions_.end(),
                      [&](const Question& q) { return q.desk == desk; });
}

std::span<const std::byte> EncodedQuestions::wait(int desk) {
  const auto nothing_else = [&] { return questions_.empty() || (left(desk) && server_.answered(desk)); };
  for (Nap nap; !nothing_else(); nap.nothing_happened()) advance();
  return server_.wait(desk);
}

}  // namespace tutti
