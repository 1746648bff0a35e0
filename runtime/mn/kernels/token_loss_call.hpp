/// The token loss of the rows of a matrix, and its gradient, in one pass over memory. This file holds the arguments of
/// the GPU's kernel; a CPU uses libtorch's operators.
///
/// For a row x of V logits with target t and weight w, and with L = log Σ exp(x):
///   loss = w/W · ((1−ε)(L − x[t]) + ε(L − Σx/V) + z L²)
///   dloss/dx[j] = w/W · (exp(x[j] − L)(1 + 2zL) − (1−ε)[j = t] − ε/V)
/// ε is the label smoothing and W the sum of all rows' weights (1 if the mean is not wanted). Rows with target
/// `ignore_index` or weight 0, and all rows if W is 0, have loss 0 and gradient 0, whatever their logits are.
///
/// Cost on a GPU: a block of threads for each row. The row stays in shared memory between its two uses, so global
/// memory reads and writes each logit once: 4 bytes of 16-bit logits. A row that does not fit is read twice.
/// Sources: online softmax (Milakov and Gimelshein 2018, arXiv:1805.02867); the gradient beside the loss (Hsu et al.
/// 2024, Liger Kernel, arXiv:2410.10989).
#pragma once

#include <cstdint>

#include <mn/core/buffer.hpp>

namespace mn::kernels {

/// All memory lies on one GPU. "Real" means double for float64 logits, and float otherwise.
struct TokenLossCall {
  void* logits = nullptr;                 ///< (rows, vocabulary); with `gradient`, overwritten by the gradient
  DType dtype = DType::kFloat32;          ///< float dtype of the logits
  std::int64_t rows = 0;                  ///< number of rows
  std::int64_t vocabulary = 0;            ///< logits of a row, V
  std::int64_t row_stride = 0;            ///< elements between the beginnings of two rows
  const std::int64_t* targets = nullptr;  ///< (rows)
  const void* weights = nullptr;          ///< (rows) Real; null: all 1
  void* losses = nullptr;                 ///< (rows) Real, written
  void* inverse = nullptr;                ///< (1) Real, written before the losses: 1/W, or 0 if W is 0
  std::int64_t ignore_index = 0;          ///< target of rows that are ignored
  double smoothing = 0;                   ///< ε
  double z_loss = 0;                      ///< z
  bool mean = true;                       ///< false: W is 1
  bool gradient = false;                  ///< true: write the gradient
  bool scaled = true;                     ///< false: the gradient lacks the factor 1/W, which float16 might round to 0
};

/// Enqueues 1/W, losses and gradients of all rows on `stream` (a cudaStream_t). A row whose target is outside of [0, V)
/// and is not ignored gets loss and gradient NaN.
void token_loss_on_device(const TokenLossCall& call, void* stream);

/// Multiplies each row in place by a factor. If `count` is 1, all rows have the same factor.
struct ScaleRowsCall {
  void* data = nullptr;           ///< (rows, columns)
  DType dtype = DType::kFloat32;  ///< float dtype of the data
  std::int64_t rows = 0;          ///< number of rows
  std::int64_t columns = 0;       ///< elements of a row
  std::int64_t row_stride = 0;    ///< elements between the beginnings of two rows
  const void* factors = nullptr;  ///< (count) Real
  std::int64_t count = 1;         ///< 1, or the number of rows
};

/// Enqueues the product on `stream` (a cudaStream_t). Rows with factor 1 are neither read nor written.
void scale_rows_on_device(const ScaleRowsCall& call, void* stream);

}  // namespace mn::kernels
