#include "gpt/data.hpp"

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
    throw DataError(option + ": " + name + " holds no tokens; `mnshard tokens` makes such shards", true);
  }
  return part;
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
  const auto val_part = open_part("--val", val.empty() ? "gpt/val" : val, false, common, comm);
  Vocabulary opened = open_vocabulary(train, vocabulary, *comm);
  const FieldSpec& tokens = train_part->spec()[0];
  if (val_part->spec()[0].num_classes != tokens.num_classes || opened.size() != tokens.num_classes) {
    throw DataError("--train, --val and the vocabulary have " + std::to_string(tokens.num_classes) + ", " +
                        std::to_string(val_part->spec()[0].num_classes) + " and " + std::to_string(opened.size()) +
                        " tokens: they must come from one call of `mnshard tokens`, or from one --vocabulary-file",
                    true);
  }
  if (val_part->spec()[0].shape != tokens.shape) {
    throw DataError("--train and --val have samples of different length: give `mnshard tokens` the same --context",
                    true);
  }
  return {app::batches_of(train_part, common, *comm), app::batches_of(val_part, common, *comm), std::move(opened),
          tokens.shape[0] - 1};
}

}  // namespace mn::jobs
