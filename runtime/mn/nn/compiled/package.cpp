#include <mn/nn/compiled/package.hpp>

#include <algorithm>
#include <fstream>
#include <utility>

#include <ATen/Version.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/exported/enumerations.hpp>
#include <mn/tensor/libtorch_version.hpp>

namespace mn::compiled {
namespace {

using nlohmann::json;

constexpr int kFormat = 2;
constexpr std::string_view kCapabilities[] = {"DEFAULT", "AVX2", "AVX512"};  // from the least to the most

std::vector<std::int64_t> order_of(const json& form, std::size_t dimensions) {
  if (form.at("order").is_null()) return {};
  const auto order = whole_numbers<std::int64_t>(form["order"]);
  auto sorted = order;
  std::ranges::sort(sorted);
  bool is_right = order.size() == dimensions;
  for (std::size_t i = 0; is_right && i < order.size(); ++i) is_right = sorted[i] == static_cast<std::int64_t>(i);
  if (!is_right) throw exported::UnknownForm("an order of dimensions that is not one");
  return order;
}

Form form_of(const json& document) {
  Form form{exported::scalar_type_of(whole_number<std::int64_t>(document.at("dtype"))), {}, {}};
  for (const json& size : document.at("sizes")) {
    if (size.is_string()) {
      form.sizes.emplace_back(size.get<std::string>());
    } else {
      form.sizes.emplace_back(count_of(size));
    }
  }
  form.order = order_of(document, form.sizes.size());
  return form;
}

std::size_t index_of(const json& number, std::size_t count) {
  const auto index = whole_number<std::size_t>(number);
  if (index >= count) throw exported::UnknownForm("an index out of range");
  return index;
}

SegmentForm read_form(const std::string& source, const json& document) {
  constexpr std::size_t kManyResults = 1 << 16;  // forward's results are counted when it runs
  SegmentForm form;
  form.name = json_quoted(document.at("path").get<std::string>()) + " of " + source;
  for (const json& input : document.at("inputs")) form.inputs.push_back(form_of(input));
  form.seeds = count_of(document.at("seeds"));
  form.outputs = static_cast<std::size_t>(count_of(document.at("outputs")));
  for (const json& each : document.at("trained")) form.trained.push_back(index_of(each, form.inputs.size()));
  for (const json& each : document.at("saved")) {
    const bool is_input = each.at("from") == "inputs";
    const std::size_t index = index_of(each.at("index"), is_input ? form.inputs.size() : kManyResults);
    const json& order = each.at("order");
    form.saved.push_back({is_input, index, order_of(each, order.is_null() ? 0 : order.size())});
  }
  for (const json& each : document.at("tangents")) {
    form.tangents.push_back({index_of(each.at("output"), form.outputs), form_of(each)});
  }
  for (const json& each : document.at("gradients")) {
    Gradient gradient{index_of(each.at("input"), form.inputs.size()), {}};
    for (const json& tangent : each.at("tangents"))
      gradient.tangents.push_back(index_of(tangent, form.tangents.size()));
    form.gradients.push_back(std::move(gradient));
  }
  return form;
}

/// The processor's flags, each between two spaces; empty if the system has none.
std::string processor_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) return line + " ";
  }
  return "";
}

}  // namespace

Package::Package(const exported::Archive& archive, std::map<std::string, std::string> code)
    : source_(archive.source()) {
  const std::string where = source_ + ": " + kMetadata;
  const json document = parse_json(archive.record(kMetadata), where);
  const auto library = [&](const std::string& name, const std::string& what) -> std::unique_ptr<Library> {
    const auto found = code.find("compiled/" + name + ".so");
    if (found == code.end()) return nullptr;
    const std::string operators = "compiled/" + name + ".json";
    return std::make_unique<Library>(std::move(found->second), archive.has(operators) ? archive.record(operators) : "",
                                     what);
  };
  read_json(where, [&] {
    if (const int format = document.at("format").get<int>(); format != kFormat) {
      throw DataError(source_ + " has format " + std::to_string(format) + ", but only format " +
                      std::to_string(kFormat) + " is known: use the mn-compile of this mn");
    }
    needs_ = {document.at("torch"),
              document.at("device"),
              document.at("capability"),
              document.at("flags").get<std::vector<std::string>>(),
              document.at("precision"),
              document.at("command"),
              document.at("derives_evaluation").get<bool>(),
              document.at("batch_norm").get<bool>(),
              document.value("network", json())};
    check_process();
    try {
      for (const auto& [number, entry] : document.at("libraries").items()) {
        SegmentForm form = read_form(source_, entry);
        auto forward = library(number + ".forward", form.name);
        auto backward = library(number + ".backward", form.name);
        if (!forward || (!backward && !form.gradients.empty()))
          throw DataError(source_ + " lacks a library of " + form.name);
        segments_[number] = std::make_shared<const Segment>(std::move(form), std::move(forward), std::move(backward));
      }
    } catch (const exported::UnknownForm& unknown) {
      throw DataError(where + " has " + unknown.what());
    }
  });
}

void Package::check_process() const {
  const std::string own = loaded_libtorch();
  const auto fail = [&](const std::string& wanted, const std::string& here) {
    throw DataError(source_ + " was compiled for " + wanted + ", but this is " + here +
                    ": make another one: " + needs_.command);
  };
  if (needs_.torch != own) fail("torch " + needs_.torch, "torch " + own);
  if (needs_.device != "cpu") return;  // a GPU's architecture is known when the libraries are loaded
  const auto rank = [](std::string_view name) { return std::ranges::find(kCapabilities, name) - kCapabilities; };
  const std::string here = at::get_cpu_capability();
  if (here != needs_.capability && (rank(needs_.capability) > rank(here) || rank(needs_.capability) == 3)) {
    fail("CPUs with " + needs_.capability, "a CPU with " + here);
  }
  const std::string flags = processor_flags();
  for (const std::string& flag : needs_.flags) {
    if (flags.find(" " + flag + " ") == std::string::npos) fail("CPUs with " + flag, "a CPU without it");
  }
}

void Package::connect(exported::Program& program) const {
  for (exported::Node& node : program.graph.nodes) {
    if (node.target != kCall) continue;
    const exported::Argument* name = exported::find_input(node, "library");
    const auto* text = name != nullptr ? std::get_if<std::string>(&name->value) : nullptr;
    const auto found = text != nullptr ? segments_.find(*text) : segments_.end();
    if (found == segments_.end()) throw DataError(source_ + ": " + node.what + " calls a library that is not there");
    node.call = [segment = found->second](std::vector<at::Tensor> inputs) { return segment->run(std::move(inputs)); };
  }
}

}  // namespace mn::compiled
