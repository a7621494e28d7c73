#pragma once
// A store in whose calls a test acts: as other processes do between two calls of this one.

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tests/store/forwarding_store.hpp"

namespace sparcl::store {

class HookedStore final : public ForwardingStore {
 public:
  enum class Call { kLook, kReadAll, kRead, kReadWhole, kPut, kReplace, kList, kRemove };
  // Called before and after each call, with the key or the prefix.
  using Hook = std::function<void(Call call, const std::string& key)>;

  using ForwardingStore::ForwardingStore;
  Hook before = [](Call, const std::string&) {}, after = before;

  // Calls `act` once, at the first such call of a key that begins like this.
  static Hook once(Call when, std::string prefix, std::function<void()> act) {
    return [when, prefix = std::move(prefix), act = std::move(act), is_over = false](
               Call call, const std::string& key) mutable {
      if (call != when || !key.starts_with(prefix) || std::exchange(is_over, true)) return;
      act();
    };
  }

  Result<std::optional<ObjectInfo>> look(const std::string& key) override {
    return in(Call::kLook, key, [&] { return store_.look(key); });
  }
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override {
    return in(Call::kReadAll, key, [&] { return store_.read_all(key, max_bytes); });
  }
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override {
    return in(Call::kRead, key, [&] { return store_.read(key, first, into); });
  }
  Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                          const PieceSink& sink) override {
    return in(Call::kReadWhole, key, [&] { return store_.read_whole(key, bytes, first, sink); });
  }
  Result<bool> put_if_absent(const std::string& key, Pieces bytes) override {
    return in(Call::kPut, key, [&] { return store_.put_if_absent(key, bytes); });
  }
  Status replace(const std::string& key, Pieces bytes) override {
    return in(Call::kReplace, key, [&] { return store_.replace(key, bytes); });
  }
  Status list(const std::string& prefix,
              const std::function<bool(const ObjectInfo&)>& visit) override {
    return in(Call::kList, prefix, [&] { return store_.list(prefix, visit); });
  }
  Status remove(const std::string& key) override {
    return in(Call::kRemove, key, [&] { return store_.remove(key); });
  }

 private:
  template <class Function>
  std::invoke_result_t<Function> in(Call call, const std::string& key, Function&& function) {
    before(call, key);
    std::invoke_result_t<Function> result = function();
    after(call, key);
    return result;
  }
};

}  // namespace sparcl::store
