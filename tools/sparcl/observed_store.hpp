#pragma once
// A store that a program reads and writes: it counts bytes, shows them on a terminal, and lets the
// program see what lists say.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "src/store/object_store.hpp"
#include "tools/sparcl/progress.hpp"

namespace sparcl::tool {

class ObservedStore final : public store::ObjectStore {
 public:
  explicit ObservedStore(std::unique_ptr<store::ObjectStore> store);

  // Of objects that are new: what was there already does not count.
  std::uint64_t put_objects() const { return put_objects_; }
  std::uint64_t put_bytes() const { return put_bytes_; }
  // Shows from now on how many bytes were read since this call ("restore: 41.2 MB"), until hide().
  void show(const std::string& what);
  void hide();
  // Called for each entry of a list, before the list's own visit.
  void watch_lists(std::function<void(const store::ObjectInfo&)> seen) { seen_ = std::move(seen); }

  Result<store::StoreCapabilities> capabilities() override { return store_->capabilities(); }
  std::string location_of(std::string_view key) const override { return store_->location_of(key); }
  void set_deadline(std::optional<Deadline> deadline) override { store_->set_deadline(deadline); }
  Result<std::optional<store::ObjectInfo>> look(const std::string& key) override {
    return store_->look(key);
  }
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override;
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override;
  Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                          const store::PieceSink& sink) override;
  Result<bool> put_if_absent(const std::string& key, store::Pieces bytes) override;
  Result<std::unique_ptr<store::ObjectWriter>> begin(const std::string& key,
                                                     std::uint64_t max_bytes) override;
  Status replace(const std::string& key, store::Pieces bytes) override {
    return store_->replace(key, bytes);
  }
  Status list(const std::string& prefix,
              const std::function<bool(const store::ObjectInfo&)>& visit) override;
  Status remove(const std::string& key) override { return store_->remove(key); }
  Result<std::uint64_t> remove_unfinished(std::int64_t before_s) override {
    return store_->remove_unfinished(before_s);
  }

 private:
  class Writer;
  void note_read(std::uint64_t bytes);
  void note_put(std::uint64_t bytes);

  std::unique_ptr<store::ObjectStore> store_;
  std::function<void(const store::ObjectInfo&)> seen_;
  std::atomic<std::uint64_t> put_objects_ = 0, put_bytes_ = 0;
  std::mutex showing_;  // guards what follows
  std::uint64_t read_bytes_ = 0;
  std::optional<Progress> progress_;
};

}  // namespace sparcl::tool
