// SPDX-License-Identifier: Apache-2.0
// Network descriptions: BrainScript, NDL or Keras JSON (NETWORK_KIND) to a graph.
#include "fuzz.h"

#include "config/load.h"
#include "tutti/builder.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const std::string text(fuzz::view(data, size));
  // Repetition is a feature of the language: counts of many digits make work, not mistakes.
  for (std::size_t i = 0, digits = 0; i < text.size(); ++i) {
    digits = text[i] >= '0' && text[i] <= '9' ? digits + 1 : 0;
    if (digits > 4) return 0;
  }
  if (text.find("nclude") != text.npos || text.find("ile") != text.npos || text.find("Load") != text.npos) return 0;
#if NETWORK_KIND == 0
  const std::string block = "BrainScriptNetworkBuilder = [\n" + text + "\n]";
#elif NETWORK_KIND == 1
  const std::string block = "NDLNetworkBuilder = [ run = n\n n = [\n" + text + "\n] ]";
#else
  const std::string block = "KerasNetworkBuilder = [ file = \"" + fuzz::write("model.json", text) + "\" ]";
#endif
  fuzz::expect_no_crash([&] {
    Problems problems;
    config::Notices notices;
    std::int64_t seed = 1;
    build_network(config::record_from_text(block, "fuzz.cntk"), {&problems, &notices, false, &seed, {}});
  });
  return 0;
}
