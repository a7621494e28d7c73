#include "collectives/broadcast/broadcast_forecast.hpp"

#include <algorithm>
#include <cstdint>

#include "collectives/broadcast/fanout.hpp"

namespace sparcl::collectives::broadcast {
namespace {

constexpr double kAlphaSeconds = 20e-6;  // a message over a network, as in collectives::link_cost
constexpr double kReadBytesPerSecond =
    20e9;  // of one core that compares two equal arrays, heuristic

// The time of a broadcast at any density, from a measurement at one.
class Prediction {
 public:
  Prediction(const model::ChangeShape& shape, const model::ModeCost& update, const LinkCost& link,
             int ranks)
      : shape_(shape), link_(link), ranks_(ranks), encode_seconds_(update.seconds) {
    const auto bits = 8 * static_cast<double>(update.bytes);
    if (shape_.changed > 0) {
      value_bits_ = std::max(
          1.0, bits / static_cast<double>(shape_.changed) - shape_.position_bits_given_old);
      position_factor_ =
          shape_.position_bits > 0 ? shape_.position_bits_given_old / shape_.position_bits : 1;
    }
  }

  FanoutPlan plan(std::uint64_t bytes) const {
    return plan_fanout(link_, ranks_, bytes, "auto", 0);
  }

  double sparse_seconds(double density) const {
    const auto elements = static_cast<double>(shape_.elements);
    const double bits =
        elements * (position_factor_ * model::binary_entropy(density) + density * value_bits_);
    const double bytes = std::min(bits / 8, static_cast<double>(shape_.dense_bytes));
    return std::max(encode_seconds(density), plan(static_cast<std::uint64_t>(bytes)).seconds);
  }

 private:
  // Reading takes a constant time; the rest grows with the changes.
  double encode_seconds(double density) const {
    const double read = std::min(encode_seconds_,
                                 2 * static_cast<double>(shape_.dense_bytes) / kReadBytesPerSecond);
    const double measured = shape_.density();
    return measured == 0 ? read : read + (encode_seconds_ - read) * density / measured;
  }

  const model::ChangeShape& shape_;
  LinkCost link_;
  int ranks_;
  double encode_seconds_;
  double value_bits_ = 2;
  double position_factor_ = 1;
};

}  // namespace

BroadcastForecast forecast(const model::ChangeShape& shape, const model::ModeCost& update,
                           double link_gbit, int ranks) {
  const LinkCost link{kAlphaSeconds, 8e-9 / link_gbit};
  const Prediction prediction(shape, update, link, ranks);
  const FanoutPlan sparse = prediction.plan(update.bytes);
  const FanoutPlan dense = prediction.plan(shape.dense_bytes);
  BroadcastForecast made;
  made.sparse_algorithm = sparse.row->name;
  made.dense_algorithm = dense.row->name;
  made.sparse_seconds = std::max(sparse.seconds, update.seconds);
  made.dense_seconds = dense.seconds;
  made.sparse_wins = made.sparse_seconds < made.dense_seconds;
  if (prediction.sparse_seconds(1) < dense.seconds) return made;  // wins at all densities
  double low = 0;
  double high = 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (prediction.sparse_seconds(middle) < dense.seconds ? low : high) = middle;
  }
  made.dense_wins_above = low;
  return made;
}

}  // namespace sparcl::collectives::broadcast
