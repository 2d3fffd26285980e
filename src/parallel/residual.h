// SPDX-License-Identifier: Apache-2.0
// residual.h -- what a rank has for itself in checkpoints: residuals, whose sum over the ranks survives a change of the
// number of ranks, and what does not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "tutti/archive.h"
#include "tutti/parameters.h"

namespace tutti {

// What ranks lose that end between exchanges: the names of gone entries.
constexpr std::string_view kOwnWeights = "weights of their own beside the centre";
constexpr std::string_view kLearnedAlone = "what they have learned since the last exchange";

// This rank's part of an entry whose sum survives (tutti/archive.h). Loading: what was saved by this rank, or zeros if
// it is new, and what ranks that are gone have left to it.
inline void archive_residual(Archive& a, std::string_view name, std::span<float> values) {
  if (a.has(sum_on_reshard_name(name)))
    a(sum_on_reshard_name(name), values);
  else
    std::fill(values.begin(), values.end(), 0.0f);
  if (!a.loading() || !a.has(inherited_name(name))) return;
  FloatBuffer inherited(values.size());
  a(inherited_name(name), inherited.span());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += inherited.data()[i];
}

}  // namespace tutti
