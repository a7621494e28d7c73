#pragma once
// Messages under way in a deterministic world: queues that keep their order, any of which may be
// served next.

#include <compare>
#include <list>
#include <map>
#include <vector>

#include "src/transport/loopback/endpoint.hpp"

namespace sparcl::transport::loopback {

enum class ParcelKind : std::uint8_t { kLetter, kSignal, kDeath };

struct Parcel {
  ParcelKind kind = ParcelKind::kLetter;
  Letter letter;  // of other kinds: from and to only
  transport::Signal signal;
};

class InFlight {
 public:
  void add(Parcel parcel);
  std::size_t count() const { return count_; }

  // Takes a parcel that may be next; count() > 0.
  Parcel take(SeededRandom& random);

  // `from` died: its large messages can no longer be fetched. Only a prefix of each queue of its
  // small messages was sent.
  void lose_from(int from, SeededRandom& random);

 private:
  struct Key {
    int from;
    int to;
    ParcelKind kind;
    transport::Channel channel;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Queue {
    Key key;
    std::list<Parcel> parcels;
  };

  std::size_t pick(SeededRandom& random) const;
  void remove_queue(std::size_t at);

  std::vector<Queue> queues_;  // none is empty
  std::map<Key, std::size_t> where_;
  std::size_t count_ = 0;
};

}  // namespace sparcl::transport::loopback
