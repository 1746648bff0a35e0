#include <mn/models/hub_config.hpp>

#include <algorithm>
#include <iterator>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn::models {
namespace {

using nlohmann::json;

/// Networks that a Llama implements, and what transformers takes where config.json says nothing.
struct Family {
  const char* type;
  const char* architecture;
  std::int64_t key_value_heads;  // 0: as many as heads
  std::int64_t head_width;       // 0: width / heads
  std::int64_t window;
};
constexpr Family kFamilies[] = {{"llama", "LlamaForCausalLM", 0, 0, 0},
                                {"mistral", "MistralForCausalLM", 8, 0, 4096},
                                {"qwen2", "Qwen2ForCausalLM", 32, 0, 0},
                                {"qwen3", "Qwen3ForCausalLM", 32, 128, 0}};

constexpr std::int64_t kMaxLayers = 10000;

/// Reads the settings of an object. Null counts as absent, as in transformers.
class Settings {
 public:
  Settings(const json& object, std::string source) : object_(object), source_(std::move(source)) {
    if (!object.is_object()) throw DataError(source_ + " is not a JSON object");
  }

  [[nodiscard]] bool has(const char* name) const { return object_.contains(name) && !object_[name].is_null(); }
  [[nodiscard]] std::int64_t size(const char* name) const {
    if (!has(name)) throw DataError(source_ + " lacks \"" + name + "\"");
    constexpr std::int64_t kMost = 1 << 30;
    const std::int64_t value = object_[name].is_number_integer() ? object_[name].get<std::int64_t>() : 0;
    if (value < 1 || value > kMost) fail(name, "it must be a whole number above 0");
    return value;
  }
  [[nodiscard]] std::int64_t size(const char* name, std::int64_t otherwise) const {
    return has(name) ? size(name) : otherwise;
  }
  /// A size that may be 0.
  [[nodiscard]] std::int64_t count(const char* name, std::int64_t otherwise) const {
    return has(name) && object_[name] == 0 ? 0 : size(name, otherwise);
  }
  [[nodiscard]] std::int64_t layers(const char* name) const {
    const std::int64_t value = size(name);
    if (value > kMaxLayers) fail(name, "a network has at most " + std::to_string(kMaxLayers) + " layers");
    return value;
  }
  [[nodiscard]] double number(const char* name, double otherwise) const {
    if (!has(name)) return otherwise;
    const double value = object_[name].is_number() ? object_[name].get<double>() : 0;
    if (!(value > 0 && value < 1e18)) fail(name, "it must be a number above 0");
    return value;
  }
  [[nodiscard]] bool flag(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    if (!object_[name].is_boolean()) fail(name, "it must be true or false");
    return object_[name].get<bool>();
  }
  [[nodiscard]] std::string text(const char* name, const char* otherwise) const {
    if (!has(name)) return otherwise;
    if (!object_[name].is_string()) fail(name, "it must be a text");
    return object_[name].get<std::string>();
  }
  [[nodiscard]] Settings object(const char* name) const { return {object_[name], source_ + ": \"" + name + '"'}; }

  /// Throws DataError if the setting has a value that is not in `known`.
  void expect(const char* name, const std::vector<json>& known) const {
    if (!has(name) || std::ranges::find(known, object_[name]) != known.end()) return;
    fail(name, "supported is only " + join(known, " or ", [](const json& value) { return value.dump(); }));
  }
  [[noreturn]] void fail(const char* name, const std::string& why) const {
    throw DataError(source_ + ": \"" + name + "\" is " +
                    one_line(json_text(object_.value(name, json()))).substr(0, 80) + ": " + why);
  }

 private:
  const json& object_;
  std::string source_;
};

GptOptions read_gpt(const Settings& settings) {
  GptOptions options = {.vocabulary = settings.size("vocab_size"),
                        .context = settings.size("n_positions"),
                        .layers = settings.layers("n_layer"),
                        .heads = settings.size("n_head"),
                        .width = settings.size("n_embd")};
  settings.expect("n_inner", {4 * options.width});
  settings.expect("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  settings.expect("layer_norm_epsilon", {1e-5});
  settings.expect("scale_attn_weights", {true});
  settings.expect("tie_word_embeddings", {true});
  for (const char* name : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) settings.expect(name, {false});
  if (options.width % options.heads != 0) settings.fail("n_head", "it must divide \"n_embd\"");
  return options;
}

RotaryOptions read_rotary(const Settings& settings) {
  // "rope_parameters" holds the base, too, in files of transformers 5.
  const char* name = settings.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  RotaryOptions options = {.base = settings.number("rope_theta", 10000)};
  settings.expect("partial_rotary_factor", {1.0});
  if (!settings.has(name)) return options;
  const Settings rope = settings.object(name);
  options.base = rope.number("rope_theta", options.base);
  rope.expect("partial_rotary_factor", {1.0});
  const char* type = rope.has("rope_type") ? "rope_type" : "type";
  rope.expect(type, {"default", "linear", "llama3"});
  if (rope.text(type, "default") == "default") return options;
  options.factor = rope.number("factor", 1);
  options.scaling = RotaryOptions::Scaling::kLinear;
  if (rope.text(type, "default") == "linear") return options;
  options.scaling = RotaryOptions::Scaling::kLlama3;
  options.low = rope.number("low_freq_factor", options.low);
  options.high = rope.number("high_freq_factor", options.high);
  options.original_context = rope.size("original_max_position_embeddings", settings.size("max_position_embeddings"));
  if (options.high <= options.low) rope.fail("high_freq_factor", "it must be above \"low_freq_factor\"");
  return options;
}

/// Reads which layers have a window, and its size.
void read_window(const Settings& settings, const Family& family, bool is_null, LlamaOptions& options) {
  const bool is_qwen = std::string_view(family.type).starts_with("qwen");
  if (is_qwen && !settings.flag("use_sliding_window", false)) return;
  options.window = is_null ? 0 : settings.size("sliding_window", is_qwen ? 4096 : family.window);
  if (is_qwen) options.first_windowed = settings.count("max_window_layers", 28);
}

/// Checks the list that newer files have beside the settings from which it follows.
void check_layer_types(const Settings& settings, const json& config, const LlamaOptions& options) {
  if (!settings.has("layer_types")) return;
  json expected = json::array();
  for (std::int64_t i = 0; i < options.layers; ++i) {
    expected.push_back(options.window > 0 && i >= options.first_windowed ? "sliding_attention" : "full_attention");
  }
  if (config["layer_types"] != expected)
    settings.fail("layer_types", "supported are only layers with a window after layers without one");
}

LlamaOptions read_llama(const Settings& settings, const json& config, const Family& family) {
  const std::string type = family.type;
  LlamaOptions options = {.vocabulary = settings.size("vocab_size"),
                          .context = settings.size("max_position_embeddings"),
                          .layers = settings.layers("num_hidden_layers"),
                          .heads = settings.size("num_attention_heads"),
                          .width = settings.size("hidden_size"),
                          .hidden = settings.size("intermediate_size"),
                          .eps = settings.number("rms_norm_eps", 1e-6),
                          .rotary = read_rotary(settings),
                          .tied = settings.flag("tie_word_embeddings", false)};
  options.key_value_heads = settings.size("num_key_value_heads", family.key_value_heads);
  options.head_width = settings.size("head_dim", family.head_width);
  settings.expect("hidden_act", {"silu"});
  if (settings.has("quantization_config")) settings.fail("quantization_config", "quantized weights are not supported");
  options.normalizes_heads = type == "qwen3";
  options.output_bias = (type == "llama" || type == "qwen3") && settings.flag("attention_bias", false);
  options.query_bias = type == "qwen2" || options.output_bias;
  options.perceptron_bias = type == "llama" && settings.flag("mlp_bias", false);
  if (type != "llama") {
    const bool is_null = config.contains("sliding_window") && config["sliding_window"].is_null();
    read_window(settings, family, is_null, options);
  }
  check_layer_types(settings, config, options);
  return options;
}

/// The type whose networks have these options.
const Family& family_of(const LlamaOptions& options) {
  if (options.normalizes_heads) return kFamilies[3];
  if (options.query_bias && !options.output_bias) return kFamilies[2];
  return kFamilies[options.window > 0 ? 1 : 0];
}

json scaling_of(const RotaryOptions& rotary) {
  switch (rotary.scaling) {
    case RotaryOptions::Scaling::kNone:
      return nullptr;
    case RotaryOptions::Scaling::kLinear:
      return {{"rope_type", "linear"}, {"factor", rotary.factor}};
    case RotaryOptions::Scaling::kLlama3:
      break;
  }
  return {{"rope_type", "llama3"},
          {"factor", rotary.factor},
          {"low_freq_factor", rotary.low},
          {"high_freq_factor", rotary.high},
          {"original_max_position_embeddings", rotary.original_context}};
}

json config_of_network(const LlamaOptions& given) {
  const LlamaOptions options = given.resolved();
  const Family& family = family_of(options);
  json config = {{"architectures", json::array({family.architecture})},
                 {"model_type", family.type},
                 {"vocab_size", options.vocabulary},
                 {"max_position_embeddings", options.context},
                 {"hidden_size", options.width},
                 {"intermediate_size", options.hidden},
                 {"num_hidden_layers", options.layers},
                 {"num_attention_heads", options.heads},
                 {"num_key_value_heads", options.key_value_heads},
                 {"head_dim", options.head_width},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", options.eps},
                 {"rope_theta", options.rotary.base},
                 {"rope_scaling", scaling_of(options.rotary)},
                 {"attention_bias", options.output_bias},
                 {"mlp_bias", options.perceptron_bias},
                 {"attention_dropout", options.dropout},
                 {"tie_word_embeddings", options.tied}};
  if (options.window == 0) return config;
  config["sliding_window"] = options.window;
  config["use_sliding_window"] = true;
  config["max_window_layers"] = options.first_windowed;
  return config;
}

json config_of_network(const GptOptions& options) {
  return {{"architectures", json::array({"GPT2LMHeadModel"})},
          {"model_type", "gpt2"},
          {"vocab_size", options.vocabulary},
          {"n_positions", options.context},
          {"n_ctx", options.context},
          {"n_embd", options.width},
          {"n_layer", options.layers},
          {"n_head", options.heads},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},
          {"attn_pdrop", options.dropout},
          {"embd_pdrop", options.dropout},
          {"resid_pdrop", options.dropout}};
}

}  // namespace

NetworkOptions network_of_config(const json& config, const std::string& source) {
  const Settings settings(config, source);
  const std::string type = settings.text("model_type", "");
  if (type == "gpt2") return read_gpt(settings);
  const auto family =
      std::ranges::find(kFamilies, type, [](const Family& each) { return std::string_view(each.type); });
  if (family == std::end(kFamilies)) {
    throw DataError(source + ": model_type " + json_quoted(type) + " is not supported: gpt2, " +
                    join(kFamilies, ", ", &Family::type) + " are");
  }
  try {
    return read_llama(settings, config, *family).resolved();
  } catch (const ArgumentError& error) {
    throw DataError(source + ": " + error.what());
  }
}

json config_of(const NetworkOptions& options) {
  json config = std::visit([](const auto& each) { return config_of_network(each); }, options);
  config["bos_token_id"] = config["eos_token_id"] = nullptr;
  return config;
}

}  // namespace mn::models
