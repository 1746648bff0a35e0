/// Runs a collective call as one autograd node whose backward is the adjoint call.
///
/// (1) Ranks first agree on the forms of their tensors: shape, dtype, requires_grad. Therefore all ranks find every
///     mismatch, and either all ranks record the node or no rank does. Otherwise some ranks would wait in a backward
///     that another rank does not run.
/// (2) Autograd would not record the node if no tensor of this rank requires a gradient. Therefore the node has an
///     extra input that requires a gradient.
/// (3) If gradients are differentiated again, all ranks or none must run the node again. A rank whose loss is linear in
///     the results would not run it. Therefore the node has an extra output, which is the extra input of the adjoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/nn/collective_forms.hpp>
#include <mn/tensor/message_form.hpp>

namespace mn {

/// A collective call and the call of its backward (the adjoint).
struct CollectiveCall {
  using Move = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& given)>;
  std::shared_ptr<Communicator> comm;
  Move forward;
  Move backward;                    // takes gradients in sent_dtype()
  const char* one_sided = nullptr;  // name of a call whose gradient only one rank has
  Move again = {};                  // replaces `forward` for gradients of gradients; empty: `forward`
};

/// Runs the call. Records it for backward if `forms` shows that a tensor of any rank needs a gradient.
[[nodiscard]] std::vector<at::Tensor> run_collective(const CollectiveCall& call, const std::vector<at::Tensor>& given,
                                                     const std::vector<CollectiveForm>& forms);

/// Returns the forms of `parts`. If `parts` lacks a tensor for some rank, the forms tell all ranks, so that all throw.
[[nodiscard]] std::vector<CollectiveForm> forms_of(const std::vector<at::Tensor>& parts, Communicator& comm);
/// Returns the tensors' forms alone.
[[nodiscard]] std::vector<MessageForm> message_forms(const std::vector<CollectiveForm>& forms);
/// Returns the forms in which the gradients of tensors of these forms are sent. Undefined tensors have no gradients.
[[nodiscard]] std::vector<MessageForm> of_gradients(std::vector<MessageForm> forms);
[[nodiscard]] bool all_by_device(const std::vector<CollectiveForm>& forms);

/// Throws unless every rank gave a tensor.
void check_defined(const std::vector<CollectiveForm>& forms, const char* call);
/// Throws unless the forms 0, step, 2 · step, … have equal dtypes, devices, and sizes from dimension `first` on. Each
/// rank has `count` of the forms.
void check_alike(const std::vector<CollectiveForm>& forms, std::size_t step, std::int64_t first, const char* call,
                 std::size_t count = 1);

/// Sends given[r] to rank r. Returns the tensors from all ranks; from[r] is the form of the tensor from rank r. A
/// tensor that is undefined is not sent; its receiver passes the form of an undefined tensor.
[[nodiscard]] std::vector<at::Tensor> exchange(const std::vector<at::Tensor>& given,
                                               const std::vector<MessageForm>& from, bool by_device,
                                               Communicator& comm);

}  // namespace mn
