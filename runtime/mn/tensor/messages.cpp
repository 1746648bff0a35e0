#include <mn/tensor/messages.hpp>

#include <algorithm>
#include <cassert>
#include <span>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/tensor/element_messages.hpp>
#include <mn/tensor/message_form.hpp>
#include <mn/tensor/ordered_calls.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

constexpr int kTag = Communicator::kMaxTag;

MessageForm form_of(Communicator& comm, const at::Tensor& dense, const char* call) {
  MessageForm form = MessageForm::of(dense, call);
  form.by_device = is_enqueued(comm, dense) ? 1 : 0;
  return form;
}

std::vector<at::Tensor> one_for_each(const std::vector<at::Tensor>& tensors, const Communicator& comm,
                                     const char* call) {
  if (std::ssize(tensors) != comm.size()) {
    throw ArgumentError(std::string(call) + " got " + std::to_string(tensors.size()) + " tensors for " +
                        std::to_string(comm.size()) + " ranks");
  }
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors) all.push_back(dense_elements(tensor, call));
  return all;
}

/// Collective: returns the forms of all ranks' tensors, rank by rank.
std::vector<MessageForm> gather_forms(Communicator& comm, std::vector<MessageForm> own) {
  std::vector<MessageForm> all(own.size() * static_cast<std::size_t>(comm.size()));
  comm.allgather(MessageForm::numbers(std::span(own)), MessageForm::numbers(std::span(all)));
  return all;
}

}  // namespace

void send_tensor(Communicator& comm, const at::Tensor& tensor, int dest, int tag) {
  const at::Tensor elements = dense_elements(tensor, "send_tensor");
  MessageForm form = message_form(comm, elements, dest, tag, "send_tensor");
  send_with_form(comm, MessageForm::numbers(form), form, elements, dest, tag);
}

at::Tensor recv_tensor(Communicator& comm, int source, int tag) {
  MessageForm form;
  return recv_with_form(
      comm, MessageForm::numbers(form), form, [&] { return tensor_for(form, source, comm); }, source, tag);
}

void recv_tensor(Communicator& comm, const at::Tensor& into, int source, int tag) {
  if (!into.defined()) throw ArgumentError("recv_tensor: there is no tensor to receive into: leave it out to get one");
  const MessageForm own = MessageForm::of(into, "recv_tensor");
  // If `into` is contiguous and on the communicator's device, its memory receives the elements. Otherwise a new tensor
  // receives them, and `into` gets a copy.
  const bool direct = into.is_contiguous() && into.device() == c10::Device(comm.device());
  MessageForm form;
  const auto memory = [&] {
    if (!form.same_as(own)) {
      throw CommError("recv_tensor from rank " + std::to_string(source) + ": " + form.text() + " came, " + own.text() +
                      " was expected");
    }
    return direct ? into.detach() : tensor_for(form, source, comm);
  };
  const at::Tensor elements = recv_with_form(comm, MessageForm::numbers(form), form, memory, source, tag);
  if (!direct) into.detach().copy_(elements);
}

at::Tensor bcast_tensor(Communicator& comm, const at::Tensor& tensor, int root) {
  const bool is_root = comm.rank() == root;
  // A clone, because the root's result must not share memory with the argument.
  const at::Tensor own = is_root ? dense_elements(tensor, "bcast_tensor").clone() : at::Tensor();
  assert(!is_root || own.numel() == 0 || !own.is_alias_of(tensor));
  MessageForm form = is_root ? form_of(comm, own, "bcast_tensor") : MessageForm();
  comm.bcast(MessageForm::numbers(form), root);
  at::Tensor result = is_root ? own : tensor_for(form, root, comm);
  form.by_device != 0 ? ordered_bcast(comm, result, root) : comm.bcast(result, root);
  return result;
}

std::vector<at::Tensor> gather_tensors(Communicator& comm, const at::Tensor& tensor, int root) {
  const at::Tensor own = dense_elements(tensor, "gather_tensors");
  const bool is_root = comm.rank() == root;
  MessageForm form = message_form(comm, own, root, 0, "gather_tensors");
  std::vector<MessageForm> forms(is_root ? static_cast<std::size_t>(comm.size()) : 0);
  comm.gather(MessageForm::numbers(form), MessageForm::numbers(std::span(forms)), root);
  // A message from each rank, because gatherv would need equal dtypes on all ranks.
  if (!is_root) {
    send_elements(comm, own, form, root, kTag);
    return {};
  }
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const MessageForm& theirs = forms[static_cast<std::size_t>(rank)];
    all.push_back(rank == root ? own.clone() : tensor_for(theirs, rank, comm));
    if (rank != root) recv_elements(comm, all.back(), theirs, rank, kTag);
  }
  return all;
}

std::vector<at::Tensor> allgather_tensors(Communicator& comm, const at::Tensor& tensor) {
  const at::Tensor own = dense_elements(tensor, "allgather_tensors");
  const std::vector<MessageForm> forms = gather_forms(comm, {form_of(comm, own, "allgather_tensors")});
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const MessageForm& form = forms[static_cast<std::size_t>(rank)];
    all.push_back(rank == comm.rank() ? own.clone() : tensor_for(form, rank, comm));
    // A broadcast from each rank, because allgatherv would need equal dtypes on all ranks.
    form.by_device != 0 ? ordered_bcast(comm, all.back(), rank) : comm.bcast(all.back(), rank);
  }
  return all;
}

at::Tensor scatter_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root) {
  const bool is_root = comm.rank() == root;
  const std::vector<at::Tensor> all =
      is_root ? one_for_each(tensors, comm, "scatter_tensors") : std::vector<at::Tensor>();
  std::vector<MessageForm> forms;
  for (std::size_t r = 0; r < all.size(); ++r) {
    forms.push_back(message_form(comm, all[r], static_cast<int>(r), 0, "scatter_tensors"));
  }
  MessageForm form;
  comm.scatter(MessageForm::numbers(std::span(forms)), MessageForm::numbers(form), root);
  if (!is_root) {
    at::Tensor own = tensor_for(form, root, comm);
    recv_elements(comm, own, form, root, kTag);
    return own;
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (rank != root) send_elements(comm, all[r], forms[r], rank, kTag);
  }
  return all[static_cast<std::size_t>(root)].clone();
}

std::vector<at::Tensor> alltoall_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors) {
  const std::vector<at::Tensor> own = one_for_each(tensors, comm, "alltoall_tensors");
  std::vector<MessageForm> sent;
  for (const at::Tensor& each : own) sent.push_back(form_of(comm, each, "alltoall_tensors"));
  const std::vector<MessageForm> forms = gather_forms(comm, std::move(sent));  // forms[source × ranks + dest]
  std::vector<at::Tensor> result;
  for (int source = 0; source < comm.size(); ++source) {
    result.push_back(tensor_for(forms[static_cast<std::size_t>(source * comm.size() + comm.rank())], source, comm));
  }
  const bool enqueued = std::ranges::all_of(forms, [](const MessageForm& form) { return form.by_device != 0; });
  ordered_exchange(comm, own, result, enqueued);
  return result;
}

}  // namespace mn
