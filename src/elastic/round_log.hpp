#pragma once
// What an aggregator keeps on the disk, so that another process goes on where it ended: its state
// after some round (model, moments, residual), and the sum of each round after that one.
//
// A folder:
//   term-N           made by the process that takes term N: an earlier one writes no round any more
//   rounds-R-N.log   what rounds before R listed, then rounds from R on, appended by term N
//   R.weights.safetensors, R.aggregator.safetensors   the state when round R opened
//   current          which R: replaced last
//
// A round is in the log, on the disk, before anybody hears of its result.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/aggregate/outer/aggregator.hpp"
#include "src/aggregate/round/contribution.hpp"
#include "src/base/buffer.hpp"
#include "src/base/status.hpp"

namespace sparcl::elastic {

// In the metadata of a state's weights.
constexpr const char* kModelIdKey = "model_id";

// A round that has ended. Without a sum it failed, and changed nothing.
struct LoggedRound {
  std::uint64_t round = 0;
  std::uint32_t workers = 0;  // active when it began
  double total_weight = 0;
  bool has_sum = false;
  std::vector<aggregate::ContributionId> listed;
  Buffer sum, weights;  // parts
};

class RoundLog {
 public:
  // Takes the next term of the folder, which is made if it is not there.
  static Result<RoundLog> open(const std::string& folder);

  RoundLog(RoundLog&& other) noexcept;
  RoundLog& operator=(RoundLog&&) = delete;
  ~RoundLog();

  std::uint64_t term() const { return term_; }
  // InvalidUsage: another process has taken over.
  Status check_term() const;

  // What the folder has. round 0: nothing yet.
  struct Kept {
    std::uint64_t round = 0;  // that was open when the state was written
    std::string weights_path, aggregator_path;
    std::vector<LoggedRound> past;    // rounds before: what they listed
    std::vector<LoggedRound> rounds;  // from that one on
  };
  Result<Kept> read() const;
  // The same of any folder, without a term.
  static Result<Kept> look(const std::string& folder);

  // Names the model of states that are written from now on.
  void name_model(std::string id) { model_id_ = std::move(id); }
  // Appends, and returns once it is on the disk. InvalidUsage: another process has taken over.
  Status append(const LoggedRound& round);
  // The state with open round `round` is written: weights as float32, the aggregator, and what the
  // past rounds listed. Earlier files are removed. InvalidUsage as above.
  Status keep(std::uint64_t round, std::span<const float> weights,
              aggregate::Aggregator& aggregator, std::span<const LoggedRound> past);
  std::uint64_t bytes() const { return bytes_ - past_bytes_; }  // appended since keep()

 private:
  RoundLog(std::string folder, std::uint64_t term) : folder_(std::move(folder)), term_(term) {}
  static Result<Kept> read_folder(const std::string& folder, std::uint64_t before_term);
  Status begin_file(std::uint64_t round);
  Status write(const LoggedRound& round);
  void remove_before(std::uint64_t round) const;
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  std::string model_id_;
  std::uint64_t term_;
  int fd_ = -1;
  std::string path_;              // of fd_
  std::uint64_t bytes_ = 0;       // of this file
  std::uint64_t past_bytes_ = 0;  // of these, what past rounds listed
};

// The content of a record, and its inverse for untrusted bytes.
std::vector<std::byte> serialise(const LoggedRound& round);
std::optional<LoggedRound> parse_logged(std::span<const std::byte> bytes);

}  // namespace sparcl::elastic
