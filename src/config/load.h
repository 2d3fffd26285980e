// SPDX-License-Identifier: Apache-2.0
// load.h -- records from texts at hand: the command line puts its files and words together here, tests use the short
// form.
#pragma once

#include <string>
#include <vector>

#include "config/text.h"
#include "tutti/config.h"

namespace tutti::config {

// Settings of all texts in order; later ones win. Syntax errors land in `problems`.
Record record_from_texts(const std::vector<TextRange>& texts, std::vector<std::string> include_paths,
                         Problems& problems);

// A record from one text; throws ConfigError.
Record record_from_text(std::string text, std::string name = "<text>");

}  // namespace tutti::config
