/// How ranks agree on the forms (shapes and dtypes) of the tensors that they give to a collective call.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/message_form.hpp>

namespace mn {

/// Throws an ArgumentError that begins with `call` if there is no communicator: split() gives none to some ranks.
void require_communicator(const std::shared_ptr<Communicator>& comm, const char* call);

/// Describes one tensor of a rank, by integers only.
struct CollectiveForm {
  enum Fault : std::int64_t { kNone, kSparse, kManyDims, kOtherDtype, kOtherCount } fault = kNone;
  std::int64_t requires_grad = 0;
  std::int64_t narrow_gradients = 0;  ///< this process has float16 gradients
  MessageForm tensor = {};

  [[nodiscard]] static CollectiveForm of(Communicator& comm, const at::Tensor& tensor);
};

/// Collective: returns the forms of all ranks' tensors, rank by rank. `own` must have the same length on every rank. If
/// the ranks make different calls, or a tensor of any rank has a fault, all ranks throw the same ArgumentError.
///
/// Each rank sends a hash of its forms. The ranks send the forms themselves only if no earlier call had these hashes;
/// every rank knows all hashes, so all ranks decide alike. With FixedForms, only the first pass sends anything.
[[nodiscard]] std::vector<CollectiveForm> agree_on_forms(const std::shared_ptr<Communicator>& comm,
                                                         const std::vector<CollectiveForm>& own, const char* call);

}  // namespace mn
