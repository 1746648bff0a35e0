#include <mn/sharding/sharded_parameters.hpp>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// (1): "blocks.3" of "blocks.3.attention.weight"; the first part of a name without a number.
std::string block_of(const std::string& name) {
  std::size_t begin = 0;
  for (std::size_t end = name.find('.'); end != std::string::npos; end = name.find('.', begin)) {
    const std::string part = name.substr(begin, end - begin);
    if (!part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; })) {
      return name.substr(0, end);
    }
    begin = end + 1;
  }
  return name.substr(0, name.find('.'));
}

/// The members of a unit: the numbers of some parameters of one block.
struct Members {
  std::size_t block;
  std::vector<std::size_t> numbers;
};

/// (1): the units of all blocks, in the order of the blocks.
std::vector<Members> units_of(const std::vector<at::Tensor>& parameters, std::size_t least_bytes) {
  std::vector<Members> units;
  std::string block;
  std::size_t number = 0, bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string own = block_of(tensor_name(parameters[i], i));
    if (own != block && bytes >= least_bytes) {
      ++number;
      bytes = 0;
    }
    block = own;
    bytes += parameters[i].nbytes();
    const auto unit = std::ranges::find_if(units, [&](const Members& other) {
      return other.block == number && parameters[other.numbers.front()].scalar_type() == parameters[i].scalar_type();
    });
    (unit == units.end() ? units.emplace_back(Members{number, {}}) : *unit).numbers.push_back(i);
  }
  return units;
}

}  // namespace

ShardedParameters::ShardedParameters(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm,
                                     ShardOptions options)
    : parameters_(std::move(parameters)), comm_(std::move(comm)), places_(parameters_.size()) {
  pieces_.resize(parameters_.size());
  for (const auto& [block, numbers] : units_of(parameters_, options.unit_bytes)) {
    const std::size_t unit = units_.size();
    blocks_.push_back(block);
    std::vector<at::Tensor> members;
    for (const std::size_t i : numbers) {
      places_[i] = {unit, members.size()};
      members.push_back(parameters_[i]);
    }
    units_.push_back(std::make_unique<ShardedUnit>(
        std::move(members), *comm_, options.what != Shard::kParameters,
        [this, unit](std::size_t number, ParameterUse::Kind kind) { use(unit, number, kind); }));
    for (const std::size_t i : numbers) {
      const ShardedUnit& own = *units_.back();
      pieces_[i] = own.piece(places_[i].number);
      known_.push_back(std::make_unique<KnownPiece>(
          ParameterPiece{parameters_[i], pieces_[i], own.layout().piece(places_[i].number, comm_->rank()).begin,
                         own.keeps(), comm_.get(), this}));
    }
  }
}

ShardedParameters::~ShardedParameters() = default;

void ShardedParameters::use(std::size_t unit, std::size_t number, ParameterUse::Kind kind) {
  const auto name = [&] {
    const at::Tensor& parameter = units_[unit]->parameters()[number];
    std::size_t i = 0;
    while (!parameters_[i].is_same(parameter)) ++i;
    return tensor_name(parameter, i);
  };
  if (holds_ > 0) return;
  if (kind.writes) {
    throw UsageError(name() +
                     " is sharded and cannot be written: each rank holds a part of it; write while a "
                     "mn::WholeParameters lives");
  }
  if (units_[unit]->is_whole()) return;
  if (!in_pass_) {
    throw UsageError(name() +
                     " is sharded and has no values here: read it between zero_grad() and step(), while a "
                     "mn::ShardPass lives, or while a mn::WholeParameters lives");
  }
  if (kind.is_first) release(/*except=*/blocks_[unit]);
  gather(blocks_[unit]);
}

void ShardedParameters::release(std::optional<std::size_t> except) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (blocks_[unit] == except) continue;
    if (units_[unit]->is_arriving()) units_[unit]->finish_gather();  // a wrong prediction: in (2) it counts
    units_[unit]->release();
  }
}

void ShardedParameters::gather(std::size_t block) {
  begin_gather(block);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (blocks_[unit] == block && units_[unit]->is_arriving()) units_[unit]->finish_gather();
  }
  if (const auto next = schedule_.next_after(block)) begin_gather(*next);
}

void ShardedParameters::begin_gather(std::size_t block) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (blocks_[unit] == block && !units_[unit]->is_whole() && !units_[unit]->is_arriving()) {
      units_[unit]->begin_gather(*comm_);
    }
  }
}

bool ShardedParameters::begin_pass() {
  if (std::exchange(in_pass_, true)) return false;
  schedule_.begin();
  return true;
}

void ShardedParameters::end_pass() {
  in_pass_ = false;
  if (holds_ == 0) release(/*except=*/std::nullopt);
}

void ShardedParameters::publish() {
  for (const auto& unit : units_) {
    if (unit->keeps()) unit->begin_gather(*comm_);
  }
  for (const auto& unit : units_) {
    if (unit->keeps()) unit->finish_gather();
  }
}

void ShardedParameters::hold() {
  if (holds_++ > 0) return;
  for (const auto& unit : units_) {
    if (unit->is_whole()) continue;
    if (!unit->is_arriving()) unit->begin_gather(*comm_);
    unit->finish_gather();
  }
}

void ShardedParameters::let_go() {
  if (--holds_ > 0) return;
  for (const auto& unit : units_) unit->keep_writes();
  if (!in_pass_) release(/*except=*/std::nullopt);
}

}  // namespace mn
