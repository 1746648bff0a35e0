/// The arguments of an exported graph's operators, parsed from the file's JSON.
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

/// The name of a value of the graph: of an input, or of a result of an operator.
struct ValueName {
  std::string name;
};

/// A constant of one of torch's enumerations. The number in the file differs from libtorch's number.
struct Enumerator {
  enum class Kind { kScalarType, kMemoryFormat, kLayout };
  Kind kind = Kind::kScalarType;
  std::int64_t number = 0;
};

/// A device, whatever its name: the graph runs on the device of its parameters, not on the device in the file.
struct AnyDevice {};

/// A constant, a value of the graph, or a list of constants and values. std::monostate is torch's None.
struct Argument {
  using Value = std::variant<std::monostate, ValueName, bool, std::int64_t, double, std::complex<double>, std::string,
                             Enumerator, AnyDevice, std::vector<Argument>>;
  std::string form;  ///< name in the file: "as_ints"
  Value value;
};

/// Maps a value's name in one graph to its name in the program, because nested graphs may use equal names.
using Rename = std::function<std::string(const std::string& name)>;

/// Thrown if the file has a form that torch may write but mn does not know. what() names the form.
class UnknownForm : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns the name of a JSON object's only member. Throws UnknownForm if `document` is not such an object.
[[nodiscard]] std::string form_of(const nlohmann::json& document);

/// Parses one argument. Throws UnknownForm, or nlohmann's exception for JSON of a wrong kind.
[[nodiscard]] Argument parse_argument(const nlohmann::json& document, const Rename& rename);

void append_values(std::vector<std::string>& names, const Argument& argument);

}  // namespace mn::exported
