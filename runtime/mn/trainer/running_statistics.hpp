/// Statistics of normalization layers, as ranks average them.
///
/// A variance over the samples of all ranks is E[v + d²] − E[d]², where v is a rank's variance, d its mean less a
/// number that all ranks share, and E the mean over ranks: what the means differ by counts, too. The shared number is
/// 0, or the last average: then no large mean cancels the variance.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}

namespace mn {

/// A buffer whose values ranks average. It shares the model's memory.
struct AveragedBuffer {
  at::Tensor buffer;                     ///< floating-point
  std::optional<std::size_t> mean = {};  ///< where this is a variance: which of the list is its mean
};

/// The model's running_statistics(), then the buffers named in `also`. Throws ArgumentError for a name that is not a
/// floating-point buffer's. Local.
[[nodiscard]] std::vector<AveragedBuffer> averaged_buffers(const torch::nn::Module& model,
                                                           const std::vector<std::string>& also = {});

/// Adds d² to v. `values` holds, for each buffer, a rank's v or d, or what else is averaged of it. In place.
void add_squared_means(const std::vector<AveragedBuffer>& buffers, const std::vector<at::Tensor>& values);
/// Subtracts E[d]² from E[v + d²]; `values` are means over ranks. In place.
void subtract_squared_means(const std::vector<AveragedBuffer>& buffers, const std::vector<at::Tensor>& values);

}  // namespace mn
