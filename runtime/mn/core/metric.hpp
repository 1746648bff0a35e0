/// What the name of a metric says about its values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mn {

/// Which values of a metric are better.
enum class Better : std::uint8_t {
  kLower,  ///< a loss's
  kHigher  ///< an accuracy's
};

/// By the words of the name's last part: lower for losses, errors, perplexities, … ("dice_loss" too), higher for
/// accuracies, IoU, F1, BLEU, …; no value for a name that says neither.
[[nodiscard]] std::optional<Better> better_of(const std::string& name);

}  // namespace mn
