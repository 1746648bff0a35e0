#include "tests/comm/programs/program_builder.hpp"

#include <algorithm>

#include <mn/comm/communicator.hpp>

namespace mn::testing {
namespace {

constexpr DType kTypes[] = {DType::kUInt8,  DType::kInt8,    DType::kInt16,    DType::kInt32,   DType::kInt64,
                            DType::kUInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                            DType::kUInt16, DType::kUInt32,  DType::kBool};
constexpr Call kReductions[] = {Call::kAllreduce, Call::kAllreduceAllocated, Call::kReduceScatter,
                                Call::kReduce,    Call::kIallreduce,         Call::kIreduceScatter};

}  // namespace

ProgramBuilder::ProgramBuilder(std::uint64_t seed, const Machine& machine) : random_(seed), machine_(machine) {
  program_.actions.resize(static_cast<std::size_t>(machine.ranks));
  set_conditions();
  make_groups();
}

void ProgramBuilder::set_conditions() {
  Conditions& conditions = program_.conditions;
  conditions.has_timeout = chance(3);
  conditions.is_debug = chance(5);
  if (chance(4)) conditions.count_limit = 3000;
  // Slices by way of other ranks; many small pieces.
  constexpr const char* kNetworks[] = {"", "", "0.001,1000,1000", "0.001,0.1,0.1"};
  conditions.network = any_of(kNetworks);
  // Less than a communicator's 17 KiB a rank; these alone; shared scratch memory for some ranks.
  constexpr std::size_t kShared[] = {1000, 100'000, 1'000'000};
  // the stand-in needs shared memory itself
  if (!machine_.gpus && chance(5)) conditions.shared_bytes = any_of(kShared);
  if (chance(4)) conditions.ranks_of_domain = 1 + static_cast<int>(below(3));
}

void ProgramBuilder::make_groups() {
  std::vector<std::string> names = communicator_names(machine_.gpus ? DeviceType::kCuda : DeviceType::kCpu);
  std::erase(names, "dummy");  // does not reduce gradients
  if (machine_.nodes > 1) std::erase(names, "single_node");
  std::vector<int> all;
  for (int r = 0; r < machine_.ranks; ++r) {
    all.push_back(r);
    program_.colors.push_back(static_cast<int>(below(4)) - 1);
    program_.keys.push_back(static_cast<int>(below(3)));
  }
  for (int i = 0; i < 2; ++i) {
    program_.backends.push_back(machine_.gpus && chance(2) ? "pure_nccl" : any_of(names));
    program_.groups.push_back({all});
  }
  for (int color = 0; color < 3; ++color) {
    std::vector<int> part;
    for (const int r : all) {
      if (program_.colors[static_cast<std::size_t>(r)] == color) part.push_back(r);
    }
    std::ranges::stable_sort(part, {}, [&](int r) { return program_.keys[static_cast<std::size_t>(r)]; });
    program_.groups.push_back({part});
  }
}

Action ProgramBuilder::new_action(Call call, std::size_t group) {
  Action action;
  action.call = call;
  action.group = group;
  action.id = next_id_++;
  action.dtype = any_of(kTypes);
  // Booleans have no sum.
  if (action.dtype == DType::kBool && std::ranges::count(kReductions, call) > 0) action.dtype = DType::kInt16;
  // From 70,000 elements on, both ranks must be there; smaller messages may be sent before.
  constexpr std::size_t kCounts[] = {0, 1, 7, 100, 1000, 3000, 10'000, 70'000, 70'000};
  action.count = chance(12) ? 1'000'000 : any_of(kCounts);
  action.on_device = machine_.gpus && chance(2);
  return action;
}

}  // namespace mn::testing
