#include "gpt/data.hpp"

#include <algorithm>
#include <filesystem>

#include <mn/comm/on_root.hpp>
#include <mn/core/json.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/stored_dataset.hpp>

namespace mn::jobs {
namespace {

std::string name_of_train(const std::string& given) { return given.empty() ? "gpt/train" : given; }

std::shared_ptr<SubDataset> open_part(const std::string& option, const std::string& name, bool for_training,
                                      const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm) {
  auto part = app::scatter_samples(option, app::open_samples(name), for_training, common, comm);
  const FieldSpec& tokens = part->spec()[0];
  if (tokens.kind != FieldKind::kFixed || tokens.shape.size() != 1 || tokens.shape[0] < 2 || tokens.num_classes < 1) {
    throw DataError(
        option + ": " + name + " holds no tokens; `mnshard tokens` makes such shards" + app::kClassFieldHint, true);
  }
  return part;
}

void check_tokens(const FieldSpec& train, const FieldSpec& val, const Vocabulary& vocabulary) {
  if (val.num_classes != train.num_classes || vocabulary.size() != train.num_classes) {
    throw DataError("--train, --val and the vocabulary have " + std::to_string(train.num_classes) + ", " +
                        std::to_string(val.num_classes) + " and " + std::to_string(vocabulary.size()) +
                        " tokens: they must come from one call of `mnshard tokens`, or from one --vocabulary-file",
                    true);
  }
  if (val.shape != train.shape) {
    throw DataError("--train and --val have samples of different length: give `mnshard tokens` the same --context",
                    true);
  }
}

}  // namespace

Vocabulary open_vocabulary(const std::string& train, const std::string& vocabulary, Communicator& comm) {
  nlohmann::json document;
  const auto load = [&] {
    const auto usual = [&] {
      const std::string first = app::dataset_names(name_of_train(train)).front();
      return data::find_dataset(first).parent_path() / "vocabulary.json";
    };
    document = Vocabulary::load(vocabulary.empty() ? usual() : std::filesystem::path(vocabulary)).to_json();
  };
  on_root<DataError>(comm, load, true);
  return Vocabulary::from_json(comm.bcast_obj(document), "the vocabulary");
}

GptData open_gpt(const std::string& train, const std::string& val, const std::string& vocabulary,
                 const app::CommonOptions& common, const std::shared_ptr<Communicator>& comm) {
  const auto train_part = open_part("--train", name_of_train(train), true, common, comm);
  Vocabulary opened = open_vocabulary(train, vocabulary, *comm);
  const FieldSpec& tokens = train_part->spec()[0];
  const auto& fields = train_part->spec().fields;
  const bool is_packed = std::ranges::find(fields, "documents", &FieldSpec::name) != fields.end();
  const auto open_val = [&](const std::string& names) {
    const auto part = open_part("--val", names, false, common, comm);
    check_tokens(tokens, part->spec()[0], opened);
    return app::batches_of(part, common, *comm);
  };
  return {app::batches_of(train_part, common, *comm), app::validation_sets(val.empty() ? "gpt/val" : val, open_val),
          std::move(opened), tokens.shape[0] - 1, is_packed};
}

}  // namespace mn::jobs
