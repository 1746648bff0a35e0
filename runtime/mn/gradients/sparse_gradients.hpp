/// The mean of sparse gradients (torch::nn::EmbeddingOptions::sparse(true)), which is sparse too.
///
/// Such a gradient stays out of the flat buffer: of a table of words only the rows of this step's words travel.
/// (1) A parameter is known from the first step on in which any rank has a sparse gradient of it: for good, and on all
///     ranks.
/// (2) Rows are summed in rank order, in float32 where they have 16 bits: equal bits on all ranks, each row once.
/// (3) Where a rank has a dense gradient of a known parameter, the mean is dense in that step.
/// (4) One rank alone keeps its gradient as it is.
/// Cost of a step with known parameters: an allgather of a few numbers, and one of all rows.
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
  using Known = std::vector<bool>;                      // [parameters]
  using Gradients = std::map<std::size_t, at::Tensor>;  // by parameter
  /// A rank's gradients of a step that stay out of the buffer, and their factor in the mean.
  struct Own {
    Gradients gradients;
    double factor = 1;
  };

  /// `known` may be empty: no parameter. `comm` must outlive this object.
  SparseGradients(std::vector<at::Tensor> parameters, Known known, Communicator& comm);

  [[nodiscard]] const Known& known() const noexcept { return known_; }
  /// Collective (1), after a rank had a sparse gradient of a parameter that is not known.
  void learn(const Own& own);
  /// Collective: Σ factorᵣ gᵣ / Σ divisorᵣ of the known parameters that any rank has a gradient of. `divisor` is the
  /// mean of the divisors over ranks.
  [[nodiscard]] Gradients mean(const Own& own, double divisor);
  /// Bytes of gradients that this rank has passed to collectives.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

 private:
  /// What a rank has of a parameter, as it travels.
  struct Part {
    enum Form : std::int64_t { kNone, kSparse, kDense, kMisshapen, kNotFinite } form = kNone;
    std::int64_t entries = 0, sparse_dims = 0;
    double factor = 1;
    [[nodiscard]] std::vector<std::int64_t> shape_of_values(const at::Tensor& parameter) const;
    [[nodiscard]] std::size_t bytes(const at::Tensor& parameter) const;
  };
  using Parts = std::map<std::size_t, std::vector<Part>>;  // by parameter that any rank has a gradient of: [ranks]

  [[nodiscard]] Own merged(const Own& own) const;
  [[nodiscard]] Part part_of(std::size_t i, const Own& own) const;
  [[nodiscard]] Parts agree(const Own& own) const;
  void check(std::size_t i, const std::vector<Part>& parts) const;
  [[nodiscard]] at::Tensor dense_mean(std::size_t i, const Own& own, double sum_of_divisors);
  [[nodiscard]] at::Tensor gather(const Parts& parts, const Gradients& own);
  void add_sparse_means(const Parts& parts, const Gradients& own, double sum_of_divisors, Gradients& means);

  std::vector<at::Tensor> parameters_;
  Known known_;
  Communicator& comm_;
  std::uint64_t bytes_sent_ = 0;
};

/// The parameters with an empty tensor in place of each known one: those whose gradients lie in a flat buffer.
[[nodiscard]] std::vector<at::Tensor> without_sparse(std::vector<at::Tensor> parameters,
                                                     const SparseGradients::Known& known);

}  // namespace mn
