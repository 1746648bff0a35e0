#include <mn/core/error.hpp>
#include <mn/data/open_shards.hpp>

namespace mn::data {

std::shared_ptr<const ShardReader> OpenShards::open(std::size_t shard, const std::function<File()>& open_file) {
  auto reader = std::make_shared<const ShardReader>(
      files.with_room([&] { return open_shard(table, shard, open_file()); }), counters);
  if (reader->size() != table.shards()[shard].num_samples || reader->header().form != table.form() ||
      reader->header().spec != stored_spec) {
    throw DataError(reader->path() +
                    " is another kind of shard than the manifest says: make the shards again with mnshard");
  }
  return reader;
}

std::shared_ptr<const ShardReader> OpenShards::reader(std::size_t shard) {
  if (stage != nullptr) {
    if (stage->has_copy(shard)) {
      try {
        return cache.reader(key_of_copy(shard), [&] { return open(shard, [&] { return stage->copy_of(shard); }); });
      } catch (const DataError& error) {
        stage->drop(shard, error.what());
      }
    }
    stage->want(shard);
  }
  return cache.reader(shard, [&] { return open(shard, [&] { return File(table.path(shard), File::Mode::kRead); }); });
}

void OpenShards::close(std::size_t shard) {
  cache.close(shard);
  cache.close(key_of_copy(shard));
}

void OpenShards::drop_copy(std::size_t shard, const std::string& why) {
  stage->drop(shard, why);
  cache.close(key_of_copy(shard));
}

}  // namespace mn::data
