/// Tells from a metric's name whether higher values are better.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mn {

/// The direction in which a metric improves.
enum class Better : std::uint8_t {
  kLower,  ///< as for a loss
  kHigher  ///< as for an accuracy
};

/// Decides by the words in the last part of the metric's name. Lower values are better for losses (even "dice_loss"),
/// errors, perplexities and the like; higher values for accuracies, IoU, F1, BLEU and the like. No value if none of the
/// words is known.
[[nodiscard]] std::optional<Better> better_of(const std::string& name);

}  // namespace mn
