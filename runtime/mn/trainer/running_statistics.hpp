/// Averages the running statistics of normalization layers over ranks.
///
/// The variance over the samples of all ranks is E[v + d²] − E[d]². Here E is the mean over ranks, v is a rank's
/// variance, and d is the rank's mean minus a number that is the same on all ranks. With this formula, differences
/// between the means of the ranks count, too. The common number is either 0 or the last average of the means. If the
/// means are large, the last average is better, because with 0 both E[v + d²] and E[d]² would be large, and their
/// difference would lose digits.
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

class Communicator;

/// A buffer of the model that is averaged over all ranks. `buffer` shares the memory of the model's buffer.
struct AveragedBuffer {
  at::Tensor buffer;                     ///< floating-point
  std::optional<std::size_t> mean = {};  ///< for a variance: index of its buffer of means in the list
};

/// Local. Returns the buffers to average: the model's running_statistics(), and after them the buffers whose names are
/// in `also`. Throws ArgumentError if a name in `also` is not the name of a floating-point buffer.
[[nodiscard]] std::vector<AveragedBuffer> averaged_buffers(const torch::nn::Module& model,
                                                           const std::vector<std::string>& also = {});

/// Call it before the ranks average `values`, which has one tensor for each buffer: the variance v, or for a buffer of
/// means the difference d. Adds d² to each variance.
void add_squared_means(const std::vector<AveragedBuffer>& buffers, const std::vector<at::Tensor>& values);
/// Call it after the ranks have averaged `values`. Subtracts E[d]² from each E[v + d²], in place.
void subtract_squared_means(const std::vector<AveragedBuffer>& buffers, const std::vector<at::Tensor>& values);

/// Collective, with one reduction. Afterwards, each buffer has the value that one rank would have computed from the
/// samples of all ranks.
void average_over_ranks(const std::vector<AveragedBuffer>& buffers, Communicator& comm);

}  // namespace mn
