#include <mn/sharding/sharded_construction.hpp>

#include <unordered_map>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <malloc.h>
#include <torch/library.h>

#include <mn/comm/communicator.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/sharding/sharded_unit.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

constexpr c10::DispatchKey kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;  // libtorch itself never includes it

thread_local ShardedConstruction* present = nullptr;

struct Divided {
  std::shared_ptr<Communicator> comm;
  std::unique_ptr<ShardedUnit> unit;  // the parameter alone
  std::unique_ptr<KnownPiece> known;
  bool is_written = false;  // since the unit was gathered
};

std::unordered_map<const c10::TensorImpl*, Divided>& divided() {
  static auto* const all = new std::unordered_map<const c10::TensorImpl*, Divided>();
  return *all;  // never destroyed: a parameter may outlive the static objects
}

void at_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard only_outermost(kModeKey);
  present->make_room();
  op.callBoxed(stack);  // looks at the arguments again, because make_room() may have divided them
  const std::vector<c10::Argument>& returns = op.schema().returns();
  const auto results = torch::jit::last(*stack, returns.size());
  for (std::size_t i = 0; i < returns.size(); ++i) {
    if (returns[i].alias_info() == nullptr && results[i].isTensor()) present->note(results[i].toTensor());
  }
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&at_operator>());
}

bool use(const c10::TensorImpl* parameter, ParameterUse::Kind kind) {
  if (kind.copies) return false;
  Divided& own = divided().at(parameter);
  own.is_written = own.is_written || kind.writes;
  if (own.unit->is_whole()) return true;
  own.unit->begin_gather(*own.comm, own.unit->type());
  own.unit->finish_gather();
  return true;
}

void divide(at::Tensor parameter, const std::shared_ptr<Communicator>& comm) {
  const at::NoGradGuard no_grad;
  const c10::TensorImpl* const impl = parameter.unsafeGetTensorImpl();
  const auto found = divided().find(impl);
  if (found != divided().end()) {
    Divided& own = found->second;
    if (std::exchange(own.is_written, false)) {
      comm->bcast(buffer_view(parameter));
      own.unit->keep_writes();
    }
    return own.unit->release();
  }
  const c10::Device device(comm->device());
  if (parameter.device() != device || !parameter.is_contiguous()) parameter.set_data(parameter.to(device).contiguous());
  comm->bcast(buffer_view(parameter));
  auto unit =
      std::make_unique<ShardedUnit>(std::vector<at::Tensor>{parameter}, *comm, /*keeps=*/false, /*on_host=*/false,
                                    [impl](std::size_t, ParameterUse::Kind kind) { return use(impl, kind); });
  const std::int64_t begin = unit->layout().piece(0, comm->rank()).begin;
  auto known = std::make_unique<KnownPiece>(ParameterPiece{
      .whole = parameter, .elements = unit->piece(0), .begin = begin, .ranks = comm.get(), .forget = [impl] {
        divided().erase(impl);
      }});
  divided().emplace(impl, Divided{comm, std::move(unit), std::move(known)});
}

}  // namespace

void convert_pieces(at::Tensor parameter, at::ScalarType type) {
  const c10::TensorImpl* const impl = parameter.unsafeGetTensorImpl();
  const at::Tensor whole = parameter.detach().to(type);  // gathers the pieces
  const std::shared_ptr<Communicator> comm = divided().extract(impl).mapped().comm;
  parameter.set_data(whole);
  divide(parameter, comm);
}

ShardedConstruction::ShardedConstruction(std::shared_ptr<Communicator> comm, std::size_t whole_bytes)
    : comm_(std::move(comm)), whole_bytes_(whole_bytes), sees_operators_(kModeKey) {
  present = this;
}

ShardedConstruction::~ShardedConstruction() { present = nullptr; }

void ShardedConstruction::note(const at::Tensor& tensor) { made_.emplace_back(tensor.getIntrusivePtr()); }

std::vector<at::Tensor> ShardedConstruction::whole_parameters() {
  std::erase_if(made_, [](const auto& tensor) { return tensor.expired(); });
  std::vector<at::Tensor> whole;
  for (const auto& weak : made_) {
    const at::Tensor tensor(weak.lock());
    if (tensor.requires_grad() && tensor.is_leaf() && !is_in_pieces(tensor)) whole.push_back(tensor);
  }
  return whole;
}

void ShardedConstruction::make_room() {
  const std::vector<at::Tensor> whole = whole_parameters();
  std::size_t bytes = 0;
  for (const at::Tensor& parameter : whole) bytes += parameter.nbytes();
  if (bytes <= whole_bytes_) return;
  for (std::size_t i = 0; i + 1 < whole.size() && bytes > whole_bytes_; ++i) {
    divide(whole[i], comm_);
    bytes -= whole[i].nbytes();
  }
  malloc_trim(0);  // a job's malloc keeps freed memory, and pieces lie between the freed parameters
}

void ShardedConstruction::finish() {
  const c10::impl::ExcludeDispatchKeyGuard no_operators(kModeKey);
  for (const at::Tensor& parameter : whole_parameters()) divide(parameter, comm_);
  made_.clear();
  malloc_trim(0);
}

}  // namespace mn
