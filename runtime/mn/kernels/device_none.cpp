// In a build without CUDA nobody calls these functions. They exist because other files refer to them.
#include <mn/core/error.hpp>
#include <mn/kernels/batch_norm_call.hpp>
#include <mn/kernels/layer_norm_call.hpp>
#include <mn/kernels/linear_gelu_call.hpp>
#include <mn/kernels/token_loss_call.hpp>

namespace mn::kernels {

[[noreturn]] static void fail() { throw Error("this build of mn has no kernels for GPUs"); }

void token_loss_on_device(const TokenLossCall& /*call*/, void* /*stream*/) { fail(); }
void scale_rows_on_device(const ScaleRowsCall& /*call*/, void* /*stream*/) { fail(); }
void norm_forward_on_device(const NormCall& /*call*/, void* /*stream*/) { fail(); }
void norm_backward_on_device(const NormCall& /*call*/, void* /*stream*/) { fail(); }
std::int64_t norm_partials_on_device(const NormCall& /*call*/) { fail(); }
void batch_norm_forward_on_device(const BatchNormCall& /*call*/, void* /*stream*/) { fail(); }
void batch_norm_sums_on_device(const BatchNormCall& /*call*/, void* /*stream*/) { fail(); }
void batch_norm_backward_on_device(const BatchNormCall& /*call*/, void* /*stream*/) { fail(); }
std::int64_t batch_norm_parts_on_device(const BatchNormCall& /*call*/) { fail(); }
void gelu_backward_on_device(const GeluCall& /*call*/, void* /*stream*/) { fail(); }
std::int64_t gelu_partials_on_device(const GeluCall& /*call*/) { fail(); }

}  // namespace mn::kernels
