#include "src/transport/loopback/in_flight.hpp"

#include <utility>

namespace sparcl::transport::loopback {

void InFlight::add(Parcel parcel) {
  const Key key{parcel.letter.from, parcel.letter.to, parcel.kind, parcel.letter.channel};
  const auto [place, fresh] = where_.try_emplace(key, queues_.size());
  if (fresh) queues_.push_back({key, {}});
  queues_[place->second].parcels.push_back(std::move(parcel));
  ++count_;
}

// News of a death comes after all messages that the dead rank sent to the same peer, as the end of
// a stream does.
std::size_t InFlight::pick(SeededRandom& random) const {
  const std::size_t first = random.below(queues_.size());
  const Key& key = queues_[first].key;
  if (key.kind != ParcelKind::kDeath) return first;
  for (std::size_t step = 1; step < queues_.size(); ++step) {
    const std::size_t at = (first + step) % queues_.size();
    if (queues_[at].key.from == key.from && queues_[at].key.to == key.to) return at;
  }
  return first;
}

Parcel InFlight::take(SeededRandom& random) {
  const std::size_t at = pick(random);
  Parcel parcel = std::move(queues_[at].parcels.front());
  queues_[at].parcels.pop_front();
  --count_;
  if (queues_[at].parcels.empty()) remove_queue(at);
  return parcel;
}

void InFlight::lose_from(int from, SeededRandom& random) {
  for (std::size_t at = queues_.size(); at-- > 0;) {
    Queue& queue = queues_[at];
    if (queue.key.from != from || queue.key.kind == ParcelKind::kDeath) continue;
    std::size_t kept = random.below(queue.parcels.size() + 1);
    auto parcel = queue.parcels.begin();
    while (parcel != queue.parcels.end() && kept > 0 && !parcel->letter.sender) ++parcel, --kept;
    count_ -= static_cast<std::size_t>(std::distance(parcel, queue.parcels.end()));
    queue.parcels.erase(parcel, queue.parcels.end());
    if (queue.parcels.empty()) remove_queue(at);
  }
}

void InFlight::remove_queue(std::size_t at) {
  where_.erase(queues_[at].key);
  if (at + 1 != queues_.size()) {
    queues_[at] = std::move(queues_.back());
    where_[queues_[at].key] = at;
  }
  queues_.pop_back();
}

}  // namespace sparcl::transport::loopback
