/// What an operator of an exported graph is given, as its JSON says.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::exported {

/// A value of the graph: an input, or what an operator returned.
struct ValueName {
  std::string name;
};

/// One of torch's enumerations, by its number in the file, which is not libtorch's.
struct Enumerator {
  enum class Kind { kScalarType, kMemoryFormat, kLayout };
  Kind kind = Kind::kScalarType;
  std::int64_t number = 0;
};

/// A device. Which one is not kept: a graph runs where its parameters lie.
struct AnyDevice {};

/// A constant, a value of the graph, or a list of them. No value is torch's None.
struct Argument {
  /// What an argument can be.
  using Value = std::variant<std::monostate, ValueName, bool, std::int64_t, double, std::complex<double>, std::string,
                             Enumerator, AnyDevice, std::vector<Argument>>;
  std::string form;  ///< as the file calls it: "as_ints"
  Value value;
};

/// Returns the name that a value has in the whole program, where graphs within each other may use a name twice.
using Rename = std::function<std::string(const std::string& name)>;

/// Names what torch may write and mn does not know.
class UnknownForm : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Which of its forms a union has: the name of the JSON object's one member. Throws UnknownForm if it is not one.
[[nodiscard]] std::string form_of(const nlohmann::json& document);

/// Throws UnknownForm, or nlohmann's exception for JSON of another kind.
[[nodiscard]] Argument parse_argument(const nlohmann::json& document, const Rename& rename);

/// Adds the names of all values in `argument`.
void append_values(std::vector<std::string>& names, const Argument& argument);

}  // namespace mn::exported
