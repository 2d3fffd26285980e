// SPDX-License-Identifier: Apache-2.0
// launcher.h -- what rank 0 tells "trainer launch" in lines of its standard error, which are not passed on, and what
// the launcher tells the ranks of a later attempt. Without a launcher nothing is said.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace tutti::launcher {

constexpr const char* kStory = "OMPI_TUTTI_LAUNCH";        // environment: the attempt, and how the one before ended
constexpr const char* kBegun = "OMPI_TUTTI_LAUNCH_BEGUN";  // models that earlier attempts began, a line each

// The watchdogs are connected: from now on the run itself notices a host that is cut off.
constexpr std::string_view kConnected = "tutti: connected";
// From `trains` to `trained`, SIGUSR1 makes all ranks save their state and end.
constexpr std::string_view kTrains = "tutti: trains", kTrained = "tutti: trained";
// Followed by the path of a model whose initial state was saved: makeMode = false has done its part.
constexpr std::string_view kFromScratch = "tutti: from scratch: ";

void tell(std::string_view what, std::string_view model = {});

inline bool has_begun(const std::string& model) {
  const char* const begun = std::getenv(kBegun);
  return begun && ("\n" + std::string(begun) + "\n").find("\n" + model + "\n") != std::string::npos;
}

}  // namespace tutti::launcher
