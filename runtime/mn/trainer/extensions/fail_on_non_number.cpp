#include <cmath>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/fail_on_non_number.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

void FailOnNonNumber::run(Trainer& trainer) {
  if (log_.entries().empty()) return;
  const nlohmann::json& entry = log_.entries().back();
  const auto value = entry.find(value_);
  if (value == entry.end() || !value->is_number() || std::isfinite(value->get<double>())) return;
  throw DataError(value_ + " is " + std::to_string(value->get<double>()) + " after iteration " +
                      std::to_string(trainer.iteration()) +
                      ": training has diverged; use a lower learning rate or a longer warm-up, and look for samples "
                      "or initial weights that are not numbers",
                  true);
}

}  // namespace mn::extensions
