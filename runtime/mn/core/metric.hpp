/// Tells from a metric's name whether higher values are better.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mn {

/// The direction in which a metric improves.
enum class Better : std::uint8_t {
  kLower,  ///< as of a loss
  kHigher  ///< as of an accuracy
};

/// Decides by the words of the name's last part: lower for losses, errors, perplexities, … ("dice_loss" too), higher
/// for accuracies, IoU, F1, BLEU, …; no value for other names.
[[nodiscard]] std::optional<Better> better_of(const std::string& name);

}  // namespace mn
