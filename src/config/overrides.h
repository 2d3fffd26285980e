// SPDX-License-Identifier: Apache-2.0
// overrides.h -- settings of the command line that no command has looked at, and the block that was meant.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/config.h"

namespace tutti::config {

struct Entry;
bool on_command_line(const SourcePos&);
bool is_override(const Entry&);  // its last word stands on the command line
// a.b=1 as other programs take it: a=[b=1].
std::string nested_setting(std::string key, const std::string& value);

// A block that commands accept, present in the config or not. Used to suggest where a key belongs.
struct KnownBlock {
  std::string name;
  std::function<void(Fields&)> describe;
};

struct RunningCommand {
  std::string name;
  Record record;  // the one that was read
  std::vector<KnownBlock> blocks;
};

// Also finds settings in command blocks that count at the top level only, in config files too.
// Call after all commands are prepared: settings read by then count as used. A setting that is used as
// $name$ anywhere is used, and a block that a config file has too belongs to a command that does not run now.
std::vector<Diagnostic> unused_overrides(const Record& top, const std::vector<RunningCommand>& commands,
                                         const std::function<void(Fields&)>& describe_top);

}  // namespace tutti::config
