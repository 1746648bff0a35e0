/// Computes the mean over ranks of sparse gradients (torch::nn::EmbeddingOptions::sparse(true)), as a sparse gradient.
///
/// A sparse gradient does not lie in the flat buffer, because only the rows of this step's words are sent, not the
/// whole table of the embedding.
/// (1) Once any rank has a sparse gradient of a parameter, all ranks know the parameter as sparse forever.
/// (2) Rows are summed in rank order, 16-bit rows in float32. All ranks get the same mean, bit for bit. Each row occurs
///     once in the mean.
/// (3) If any rank has a dense gradient of a parameter known as sparse, the mean is dense in this step.
/// (4) If there is only one rank, nothing is sent, and the rank's own gradient is the mean.
/// Cost of a step if some parameters are known as sparse: an allgather of a few numbers, and an allgather of all rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

class SparseGradients {
 public:
  using Flags = std::vector<bool>;                      // [parameters] true: known as sparse (1)
  using Gradients = std::map<std::size_t, at::Tensor>;  // by parameter
  /// The gradients of one rank and one step that do not lie in the buffer, and the rank's StepWeight::factor.
  struct Own {
    Gradients gradients;
    double factor = 1;
  };

  /// If `flags` is empty, no parameter is known as sparse. `comm` must outlive the object.
  SparseGradients(std::vector<at::Tensor> parameters, Flags flags, Communicator& comm);

  [[nodiscard]] const Flags& flags() const noexcept { return flags_; }
  /// Collective: tells all ranks which parameters have a sparse gradient in any rank's `own` (1). Call it in a step in
  /// which any rank had a sparse gradient of a parameter that was not known as sparse.
  void learn(const Own& own);
  /// Collective: computes Σ factorᵣ gᵣ / (number of ranks · divisor), where gᵣ is the gradient of rank r. Does this for
  /// each parameter that is known as sparse and has a gradient on any rank. `divisor` is the mean over the ranks of
  /// StepWeight::divisor, and is the same on all ranks.
  [[nodiscard]] Gradients mean(const Own& own, double divisor);
  /// Bytes of gradients that the calling rank's collective calls have sent.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

 private:
  /// Describes a rank's gradient of a parameter. The ranks exchange descriptions before the gradients.
  struct Part {
    enum Form : std::int64_t { kNone, kSparse, kDense, kMisshapen, kNotFinite } form = kNone;
    std::int64_t entries = 0, sparse_dims = 0;
    double factor = 1;
    [[nodiscard]] std::vector<std::int64_t> shape_of_values(const at::Tensor& parameter) const;
    [[nodiscard]] std::size_t bytes(const at::Tensor& parameter) const;
  };
  using Parts = std::map<std::size_t, std::vector<Part>>;  // [ranks] for each parameter of which a rank has a gradient

  [[nodiscard]] Own merged(const Own& own) const;
  [[nodiscard]] Part part_of(std::size_t i, const Own& own) const;
  [[nodiscard]] Parts agree(const Own& own) const;
  void check(std::size_t i, const std::vector<Part>& parts) const;
  [[nodiscard]] at::Tensor dense_mean(std::size_t i, const Own& own, double sum_of_divisors);
  [[nodiscard]] at::Tensor gather(const Parts& parts, const Gradients& own);
  void add_sparse_means(const Parts& parts, const Gradients& own, double sum_of_divisors, Gradients& means);

  std::vector<at::Tensor> parameters_;
  Flags flags_;
  Communicator& comm_;
  std::uint64_t bytes_sent_ = 0;
};

/// Replaces each parameter known as sparse by an empty tensor. A flat buffer made from the result has room only for
/// dense gradients.
[[nodiscard]] std::vector<at::Tensor> without_sparse(std::vector<at::Tensor> parameters,
                                                     const SparseGradients::Flags& flags);

}  // namespace mn
