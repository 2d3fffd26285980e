// SPDX-License-Identifier: Apache-2.0
// method_table.h -- the table of parallel methods. A row is a type: the options of a method, its name, a line of help,
// and these functions:
//   void describe(config::Fields&);                        the block of settings under the method's name
//   MethodTraits traits() const;                           the facts that follow from the settings
//   ParallelMethod make(const MethodContext&) const;       creates the method; collective
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "parallel/data_parallel_options.h"
#include "parallel/local_gradients.h"
#include "parallel/local_sgd/asa_options.h"
#include "parallel/local_sgd/block_options.h"
#include "parallel/parameter_server/options.h"

namespace tutti {

template <class Options>
concept MethodRow = requires(const Options& options, const MethodContext& context) {
  { Options::name } -> std::convertible_to<const char*>;
  { Options::help } -> std::convertible_to<const char*>;
  { options.traits() } -> std::same_as<MethodTraits>;
  { options.make(context) } -> std::same_as<ParallelMethod>;
};

using MethodOptions = std::variant<NoExchange,             //
                                   DataParallelOptions,    //
                                   ModelAveragingOptions,  //
                                   BlockMomentumOptions,   //
                                   AsaOptions,             //
                                   EasgdOptions,           //
                                   ServerOptions>;

// Calls visit.operator()<Options>() for every row.
template <class Visit, MethodRow... Rows>
void for_each_row(const std::variant<Rows...>*, const Visit& visit) {
  (visit.template operator()<Rows>(), ...);
}
template <class Visit>
void for_each_method(const Visit& visit) {
  for_each_row(static_cast<const MethodOptions*>(nullptr), visit);
}

inline const char* name_of(const MethodOptions& method) {
  return std::visit([](const auto& m) { return m.name; }, method);
}
inline MethodTraits traits_of(const MethodOptions& method) {
  return std::visit([](const auto& m) { return m.traits(); }, method);
}
// The values of parallelizationMethod, each with the row it selects.
std::vector<std::pair<std::string, std::size_t>> method_words();
MethodOptions default_method(std::size_t row);

}  // namespace tutti
