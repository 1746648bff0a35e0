#include <mn/tensor/messages.hpp>

#include <cassert>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// The dtype and shape of a tensor, as described by the sender.
struct TensorForm {
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::string text() const { return std::string(toString(dtype)) + " " + nlohmann::json(shape).dump(); }
};

nlohmann::json to_json(const at::Tensor& tensor) {
  return {{"dtype", static_cast<int>(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}};
}

TensorForm form_from(const nlohmann::json& form, int source) {
  return read_json("what rank " + std::to_string(source) + " sent as a tensor", [&] {
    return TensorForm{static_cast<at::ScalarType>(whole_number<int>(form.at("dtype"))),
                      whole_numbers<std::int64_t>(form.at("shape"))};
  });
}

TensorForm recv_form(Communicator& comm, int source, int tag) { return form_from(comm.recv_json(source, tag), source); }

at::Tensor empty_of(const TensorForm& form, const Communicator& comm) {
  return at::empty(form.shape, at::TensorOptions(form.dtype).device(c10::Device(comm.device())));
}

/// Returns `tensor` detached and contiguous, as communicators need it. If the tensor is undefined, throws an
/// ArgumentError that names `call`.
at::Tensor dense(const at::Tensor& tensor, const char* call) {
  if (!tensor.defined()) throw ArgumentError(std::string(call) + ": an undefined tensor can't be sent");
  at::Tensor contiguous = tensor.detach().contiguous();
  static_cast<void>(buffer_view(contiguous));  // invariant 1: throws for a wrong dtype
  return contiguous;
}

std::vector<at::Tensor> one_for_each(const std::vector<at::Tensor>& tensors, const Communicator& comm,
                                     const char* call) {
  if (std::ssize(tensors) != comm.size()) {
    throw ArgumentError(std::string(call) + " got " + std::to_string(tensors.size()) + " tensors for " +
                        std::to_string(comm.size()) + " ranks");
  }
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors) all.push_back(dense(tensor, call));
  return all;
}

constexpr int kTag = Communicator::kMaxTag;

}  // namespace

void send_tensor(Communicator& comm, const at::Tensor& tensor, int dest, int tag) {
  const at::Tensor elements = dense(tensor, "send_tensor");
  // The document and the elements have one tag, because MPI keeps the order of messages between two ranks.
  comm.send_obj(to_json(tensor), dest, tag);
  comm.send(elements, dest, tag);
}

at::Tensor recv_tensor(Communicator& comm, int source, int tag) {
  at::Tensor tensor = empty_of(recv_form(comm, source, tag), comm);
  comm.recv(tensor, source, tag);
  return tensor;
}

void recv_tensor(Communicator& comm, const at::Tensor& into, int source, int tag) {
  if (!into.defined()) throw ArgumentError("recv_tensor: there is no tensor to receive into: leave it out to get one");
  const TensorForm form = recv_form(comm, source, tag);
  const TensorForm own{into.scalar_type(), into.sizes().vec()};
  if (form.dtype != own.dtype || form.shape != own.shape) {
    throw CommError("recv_tensor from rank " + std::to_string(source) + ": " + form.text() + " came, " + own.text() +
                    " was expected");
  }
  // A communicator receives into contiguous memory. If `into` has gaps, the elements arrive in a copy first.
  const at::Tensor elements = into.detach().is_contiguous() ? into.detach() : at::empty(into.sizes(), into.options());
  comm.recv(elements, source, tag);
  if (!into.is_contiguous()) into.detach().copy_(elements);
}

at::Tensor bcast_tensor(Communicator& comm, const at::Tensor& tensor, int root) {
  const bool is_root = comm.rank() == root;
  // Invariant 3: the root's result is a clone, so it never shares memory with the argument.
  const at::Tensor own = is_root ? dense(tensor, "bcast_tensor").clone() : at::Tensor();
  assert(!is_root || own.numel() == 0 || !own.is_alias_of(tensor));  // invariant 3: no shared memory
  const nlohmann::json form = comm.bcast_obj(is_root ? to_json(own) : nlohmann::json(), root);
  at::Tensor result = is_root ? own : empty_of(form_from(form, root), comm);
  comm.bcast(result, root);
  return result;
}

std::vector<at::Tensor> gather_tensors(Communicator& comm, const at::Tensor& tensor, int root) {
  const at::Tensor own = dense(tensor, "gather_tensors");
  const std::vector<nlohmann::json> forms = comm.gather_obj(to_json(own), root);
  // gatherv would need equal dtypes on all ranks, so every rank sends its tensor in a message instead.
  if (comm.rank() != root) {
    comm.send(own, root, kTag);
    return {};
  }
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    all.push_back(rank == root ? own.clone() : empty_of(form_from(forms[static_cast<std::size_t>(rank)], rank), comm));
    if (rank != root) comm.recv(all.back(), rank, kTag);
  }
  return all;
}

std::vector<at::Tensor> allgather_tensors(Communicator& comm, const at::Tensor& tensor) {
  const at::Tensor own = dense(tensor, "allgather_tensors");
  const std::vector<nlohmann::json> forms = comm.allgather_obj(to_json(own));
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const bool is_own = rank == comm.rank();
    all.push_back(is_own ? own.clone() : empty_of(form_from(forms[static_cast<std::size_t>(rank)], rank), comm));
    comm.bcast(all.back(), rank);  // by bcast, because allgatherv would need equal dtypes
  }
  return all;
}

at::Tensor scatter_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root) {
  if (comm.rank() != root) {
    const std::string form = comm.scatter_obj({}, root);
    at::Tensor own = empty_of(form_from(parse_json(form, "a tensor's form"), root), comm);
    comm.recv(own, root, kTag);
    return own;
  }
  const std::vector<at::Tensor> all = one_for_each(tensors, comm, "scatter_tensors");
  std::vector<std::string> forms;
  for (const at::Tensor& each : all) forms.push_back(to_json(each).dump());
  static_cast<void>(comm.scatter_obj(forms, root));
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank != root) comm.send(all[static_cast<std::size_t>(rank)], rank, kTag);
  }
  return all[static_cast<std::size_t>(root)].clone();
}

std::vector<at::Tensor> alltoall_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors) {
  const std::vector<at::Tensor> own = one_for_each(tensors, comm, "alltoall_tensors");
  nlohmann::json forms = nlohmann::json::array();
  for (const at::Tensor& each : own) forms.push_back(to_json(each));
  // Every rank gets the documents of all messages, all[source][dest], and uses the documents with itself as `dest`.
  const std::vector<nlohmann::json> all = comm.allgather_obj(forms);
  std::vector<at::Tensor> result(own.size());
  const int rank = comm.rank();
  const int size = comm.size();
  result[static_cast<std::size_t>(rank)] = own[static_cast<std::size_t>(rank)].clone();
  // In each step every rank sends to a different rank, so no rank gets two messages in one step.
  for (int step = 1; step < size; ++step) {
    const int dest = (rank + step) % size;
    const int source = (rank - step + size) % size;
    at::Tensor& received = result[static_cast<std::size_t>(source)];
    received =
        empty_of(form_from(all[static_cast<std::size_t>(source)].at(static_cast<std::size_t>(rank)), source), comm);
    comm.sendrecv(own[static_cast<std::size_t>(dest)], dest, received, source, kTag);
  }
  return result;
}

}  // namespace mn
