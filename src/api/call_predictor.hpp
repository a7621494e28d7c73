#pragma once
// How long a call will take, by how long calls like it took on this communicator. Each rank has its
// own prediction: no choice that ranks must make alike may depend on it.

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

namespace sparcl::api {

// The facts of a call, known before it begins, that predict how long it takes.
struct CallWork {
  std::string_view operation{};  // its collective's name; launch() knows it
  std::string_view variant{};    // calls that cost differently: a literal
  std::uint64_t elements = 0;
  std::uint64_t entries = 0;  // the elements that are sent, if known; else 0
  bool is_root = false;
  bool is_blocking = true;
};

class CallPredictor {
 public:
  // The whole call, in seconds; nothing before the first call of its kind.
  std::optional<double> expect(const CallWork& work) const;
  void learn(const CallWork& work, double seconds) noexcept;

 private:
  // Sizes within a factor of the square root of two are one class.
  struct Kind {
    std::string_view operation, variant;
    bool is_root, is_blocking;
    int elements_class, entries_class;
    auto operator<=>(const Kind&) const = default;
  };
  struct Seen {
    std::array<float, 5> seconds{};  // of the last calls
    std::uint32_t calls = 0;
    double median() const;
  };
  static Kind kind_of(const CallWork& work);
  std::optional<double> scaled_from_nearest(const Kind& kind) const;

  std::map<Kind, Seen> seen_;
};

// How long a first call may take. exchange_s: the cost model's time for the exchange.
double first_guess(const CallWork& work, double exchange_s);

}  // namespace sparcl::api
