#pragma once
// A store from which a subscriber takes versions while its publisher cannot be reached.

#include <memory>
#include <optional>

#include "src/base/repeated_messages.hpp"
#include "src/replication/subscriber.hpp"
#include "src/store/version_reader.hpp"

namespace sparcl::api {

class StoreFallback {
 public:
  // lease_s: of store::Lease.
  StoreFallback(std::unique_ptr<store::ObjectStore> objects, store::ChainTrustRef trust,
                std::int64_t lease_s);
  ~StoreFallback() { lease_.release(); }
  StoreFallback(const StoreFallback&) = delete;
  StoreFallback& operator=(const StoreFallback&) = delete;

  // Waits as subscriber.next() does. While the publisher is in trouble the store is looked at, and
  // its newest version is taken if it is newer than what is held.
  Result<replication::Subscriber::Swap> next(replication::Subscriber& subscriber, double seconds);

 private:
  // nullopt: there is nothing to take.
  std::optional<Result<replication::Subscriber::Swap>> look(replication::Subscriber& subscriber,
                                                            double now);
  Result<replication::Subscriber::Swap> take(replication::Subscriber& subscriber);

  std::unique_ptr<store::ObjectStore> objects_;
  store::Chain chain_;
  store::Lease lease_;
  store::VersionReader reader_;
  std::optional<double> in_trouble_since_;
  double looked_at_ = -1e9;
  RepeatedMessages failures_;
};

}  // namespace sparcl::api
