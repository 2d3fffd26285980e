// SPDX-License-Identifier: Apache-2.0
// not_available.h -- names that the original's network languages have and these do not, so that a config that uses one
// is told what to do instead. docs/compatibility/networks.md lists them.
#pragma once

#include <string>
#include <vector>

namespace tutti::brainscript {

struct NotAvailable {
  std::string name;
  std::string instead;  // the fix
};
const std::vector<NotAvailable>& not_available();
// By name, whatever its case; null when the original has no such operation either.
const NotAvailable* find_not_available(const std::string& name);

}  // namespace tutti::brainscript
