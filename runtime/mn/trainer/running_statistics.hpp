/// Averages the running statistics of normalization layers over ranks.
///
/// The variance over the samples of all ranks is E[v + d²] − E[d]². E is the mean over ranks, v a rank's variance, and
/// d the rank's mean minus a number that all ranks share. Therefore differences between the ranks' means count, too.
/// The shared number is 0 or the last average of the means. The last average is better if the means are large: with 0,
/// both E[v + d²] and E[d]² would be large, and their difference would lose digits.
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

/// A buffer of the model that is averaged over all ranks. `buffer` shares the model's memory.
struct AveragedBuffer {
  at::Tensor buffer;                     ///< floating-point
  std::optional<std::size_t> mean = {};  ///< for a variance: index of its buffer of means in the list
};

/// Local. Lists the buffers to average: the model's running_statistics(), then the buffers named in `also`. Throws
/// ArgumentError if a name in `also` is not the name of a floating-point buffer.
[[nodiscard]] std::vector<AveragedBuffer> averaged_buffers(const torch::nn::Module& model,
                                                           const std::vector<std::string>& also = {});

/// Before ranks average, adds d² to each variance v in `values`, which has v or d (for a mean) for each buffer.
void add_squared_means(const std::vector<AveragedBuffer>& buffers, const std::vector<at::Tensor>& values);
/// Call it after ranks have averaged: subtracts E[d]² from each E[v + d²], in place. `values` are the means over ranks.
void subtract_squared_means(const std::vector<AveragedBuffer>& buffers, const std::vector<at::Tensor>& values);

/// Collective, one reduction: the buffers become their averages, as if one rank had seen all ranks' samples.
void average_over_ranks(const std::vector<AveragedBuffer>& buffers, Communicator& comm);

}  // namespace mn
