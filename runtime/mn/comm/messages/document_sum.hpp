/// The sum of JSON documents, one of each rank, for allreduce_obj.
///
/// Numbers are added in rank order; arrays and objects element by element; every other value must be equal in all
/// documents. Pure: all ranks compute an equal sum, or throw an equal ArgumentError.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn {

/// `documents` by rank, at least one. ArgumentError if the documents differ in form, or if a sum of integers needs more
/// than 64 bits.
[[nodiscard]] nlohmann::json sum_of_documents(const std::vector<nlohmann::json>& documents);

}  // namespace mn
