#include <mn/core/json.hpp>
#include <mn/trainer/extension.hpp>

namespace mn {

nlohmann::json Extension::state() const { return nullptr; }

}  // namespace mn
