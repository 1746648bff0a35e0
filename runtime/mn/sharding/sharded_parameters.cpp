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

/// The numbers of the parameters of each unit.
std::vector<std::vector<std::size_t>> units_of(const std::vector<at::Tensor>& parameters, std::size_t least_bytes) {
  std::vector<std::vector<std::size_t>> units;
  std::string block;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string own = block_of(tensor_name(parameters[i], i));
    const bool fits = !units.empty() && parameters[units.back().front()].scalar_type() == parameters[i].scalar_type();
    if (!fits || (own != block && bytes >= least_bytes)) {
      units.emplace_back();
      bytes = 0;
    }
    block = own;
    units.back().push_back(i);
    bytes += parameters[i].nbytes();
  }
  return units;
}

}  // namespace

ShardedParameters::ShardedParameters(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm,
                                     ShardOptions options)
    : parameters_(std::move(parameters)), comm_(std::move(comm)), places_(parameters_.size()) {
  pieces_.resize(parameters_.size());
  for (const auto& numbers : units_of(parameters_, options.unit_bytes)) {
    const std::size_t unit = units_.size();
    std::vector<at::Tensor> members;
    for (const std::size_t i : numbers) {
      places_[i] = {unit, members.size()};
      members.push_back(parameters_[i]);
    }
    units_.push_back(std::make_unique<ShardedUnit>(
        std::move(members), *comm_, options.what != Shard::kParameters,
        [this, unit](std::size_t number, ParameterUse::Access access) { use(unit, number, access); }));
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

void ShardedParameters::use(std::size_t unit, std::size_t number, ParameterUse::Access access) {
  const auto name = [&] {
    const at::Tensor& parameter = units_[unit]->parameters()[number];
    std::size_t i = 0;
    while (!parameters_[i].is_same(parameter)) ++i;
    return tensor_name(parameter, i);
  };
  if (holds_ > 0) return;
  if (access == ParameterUse::Access::kWrite) {
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
  gather(unit);
}

void ShardedParameters::gather(std::size_t unit) {
  for (std::size_t other = 0; other < units_.size(); ++other) {
    if (other == unit) continue;
    if (units_[other]->is_arriving()) units_[other]->finish_gather();  // a wrong prediction: in (2) it counts
    units_[other]->release();
  }
  if (!units_[unit]->is_arriving()) units_[unit]->begin_gather(*comm_);
  units_[unit]->finish_gather();
  if (const auto next = schedule_.next_after(unit); next && !units_[*next]->is_whole()) {
    units_[*next]->begin_gather(*comm_);
  }
}

bool ShardedParameters::begin_pass() {
  if (std::exchange(in_pass_, true)) return false;
  schedule_.begin();
  return true;
}

void ShardedParameters::end_pass() {
  in_pass_ = false;
  if (holds_ == 0) release_all();
}

void ShardedParameters::release_all() {
  for (const auto& unit : units_) {
    if (unit->is_arriving()) unit->finish_gather();
    unit->release();
  }
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
  if (!in_pass_) release_all();
}

}  // namespace mn
