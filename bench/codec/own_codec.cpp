#include "bench/codec/own_codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bench/codec/memory_speed.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/update.hpp"

namespace sparcl::bench {
namespace {

constexpr std::uint64_t kBlock = 65536;
constexpr std::uint64_t kStepElements = std::uint64_t{1} << 20;

void require(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}\n", status.message());
  std::exit(1);
}

// Keeps the stream as a transport does; memory is allocated once, for all rounds.
class StagingSink : public codec::ByteSink {
 public:
  std::byte* reserve(std::size_t bytes) override {
    const std::size_t left =
        Staging::kSegmentBytes - static_cast<std::size_t>(used_ % Staging::kSegmentBytes);
    direct_ = bytes <= left;
    if (!direct_) {
      spill_.resize(bytes);
      return spill_.data();
    }
    staging_.reserve(used_ + bytes);
    return staging_.slice(used_, bytes).data();
  }
  void commit(std::size_t used) override {
    if (!direct_) staging_.write(used_, {spill_.data(), used});
    used_ += used;
  }
  void rewind() { used_ = 0; }
  const Staging& staging() const { return staging_; }
  std::uint64_t used() const { return used_; }

 private:
  Staging staging_;
  std::vector<std::byte> spill_;
  std::uint64_t used_ = 0;
  bool direct_ = false;
};

// The memory of all rounds, made once.
class Run {
 public:
  Run(const Input& input, const OwnMode& mode, const kernels::KernelSet& kernels)
      : input_(input), mode_(mode), kernels_(kernels), map_({&spec_, 1}) {
    base_hash_ = codec::state_hash(map_, {&base_, 1}, {}, kernels);
  }

  void encode(bool with_hash, StagingSink& sink) const {
    sink.rewind();
    codec::EncodeOptions options;
    options.with_state_hash = with_hash;
    if (with_hash && !input_.fresh) options.base_hash = base_hash_;
    options.allow_classes = mode_.classes;
    options.fewest_bytes = mode_.fewest;
    options.mode = mode_.block_mode;
    const std::byte* base = input_.fresh ? nullptr : base_;
    codec::UpdateEncoder encoder(map_, {&base, 1}, {&target_, 1}, options, kernels_);
    while (!encoder.finished()) require(encoder.step(kStepElements, sink));
  }

  // Seconds of checking and of applying.
  std::pair<double, double> decode(const StagingSink& stream, std::byte* held, codec::Verify verify,
                                   codec::Writing writing) const {
    Stopwatch watch;
    codec::UpdateDecoder decoder(map_, {&held, 1}, verify, {}, kernels_, writing);
    if (!input_.fresh) decoder.track(base_hash_);
    bool more = false;
    require(decoder.advance(stream.staging(), stream.used(), ~std::uint64_t{0}, more));
    require(decoder.finish(stream.used()));
    const double check = watch.lap();
    require(decoder.apply(stream.staging()));
    return {check, watch.lap()};
  }

  const std::byte* base() const { return base_; }
  const std::byte* target() const { return target_; }

 private:
  const Input& input_;
  const OwnMode& mode_;
  const kernels::KernelSet& kernels_;
  codec::ArraySpec spec_{input_.type, input_.elements};
  codec::BlockMap map_;
  const std::byte* base_ = input_.base.data();
  const std::byte* target_ = input_.target.data();
  Hash128 base_hash_;
};

// The kernels of diff and of the state hash alone, block by block.
class KernelRun {
 public:
  KernelRun(const Input& input, const kernels::KernelSet& kernels)
      : input_(input), width_(element_bytes(input.type)), kernels_(kernels.of(input.type)) {
    find_changes();
  }

  std::uint64_t diff() {
    std::uint64_t sum = 0;
    each_block([&](std::uint64_t first, std::size_t count) {
      sum += kernels_.diff(input_.base.data() + first * width_,
                           input_.target.data() + first * width_, count, 0, scratch_.data());
    });
    return sum;
  }

  // Hashes all changes, `times` times: those of a few blocks repeatedly, then those of the next.
  std::uint64_t hash(int times) const {
    constexpr std::size_t kBlocksInCache = 16;
    std::uint64_t sum = 0;
    std::size_t window_at = 0;
    for (std::size_t window = 0; window < counts_.size(); window += kBlocksInCache) {
      const std::size_t last = std::min(window + kBlocksInCache, counts_.size());
      std::size_t at = window_at;
      for (int time = 0; time < times; ++time) {
        at = window_at;
        for (std::size_t i = window; i < last; at += counts_[i++]) {
          sum += kernels_
                     .hash_changes(positions_.data() + at, counts_[i], olds_.data() + at * width_,
                                   news_.data() + at * width_)
                     .old_values.low;
        }
      }
      window_at = at;
    }
    return sum;
  }

 private:
  template <class Work>
  void each_block(Work work) const {
    for (std::uint64_t first = 0; first < input_.elements; first += kBlock) {
      work(first, static_cast<std::size_t>(std::min(kBlock, input_.elements - first)));
    }
  }

  void find_changes() {
    std::vector<std::byte> olds(kBlock * width_ + kernels::kValueSlackBytes), news(olds.size());
    each_block([&](std::uint64_t first, std::size_t count) {
      const std::size_t changed = kernels_.diff_values(
          input_.base.data() + first * width_, input_.target.data() + first * width_, count, 0,
          scratch_.data(), olds.data(), news.data());
      counts_.push_back(changed);
      positions_.insert(positions_.end(), scratch_.begin(),
                        scratch_.begin() + static_cast<std::ptrdiff_t>(changed));
      olds_.insert(olds_.end(), olds.begin(),
                   olds.begin() + static_cast<std::ptrdiff_t>(changed * width_));
      news_.insert(news_.end(), news.begin(),
                   news.begin() + static_cast<std::ptrdiff_t>(changed * width_));
    });
    positions_.resize(positions_.size() + kernels::kPositionSlack);
  }

  const Input& input_;
  const std::size_t width_;
  const kernels::ElementKernels& kernels_;
  std::vector<std::uint16_t> scratch_ =
      std::vector<std::uint16_t>(kBlock + kernels::kPositionSlack);
  std::vector<std::size_t> counts_;
  std::vector<std::uint16_t> positions_;
  std::vector<std::byte> olds_;
  std::vector<std::byte> news_;
};

}  // namespace

const std::vector<OwnMode>& own_modes() {
  static const std::vector<OwnMode> modes = {
      {"sparcl", false, false}, {"sparcl classes", true, false}, {"sparcl fewest", true, true}};
  return modes;
}

OwnTimes measure_own(const Input& input, const OwnMode& mode, const kernels::KernelSet& kernels,
                     int rounds, std::byte* held) {
  const Run run(input, mode, kernels);
  KernelRun alone(input, kernels);
  StagingSink stream, scratch;
  run.encode(true, stream);
  OwnTimes times;
  times.encoded_bytes = stream.used();
  volatile std::uint64_t keep = 0;
  Stopwatch watch;
  const auto decode = [&](codec::Verify verify, codec::Writing writing, bool compare) {
    std::memcpy(held, run.base(), input.bytes());
    const auto seconds = run.decode(stream, held, verify, writing);
    if (compare && std::memcmp(held, run.target(), input.bytes()) != 0)
      require(Status(Code::kInternalError, fmt::format("{}, {}: what was applied is not the target",
                                                       input.name, mode.name)));
    return seconds;
  };
  for (int round = 0; round < rounds; ++round) {
    watch.lap();
    keep = keep + read_one(run.base(), input.bytes());
    times.read_one.push_back(watch.lap());
    keep = keep + read_two(run.base(), run.target(), input.bytes());
    times.read_two.push_back(watch.lap());
    keep = keep + alone.diff();
    times.diff.push_back(watch.lap());
    if (!mode.classes) {
      run.encode(false, scratch);
      times.encode_plain.push_back(watch.lap());
    }
    run.encode(true, scratch);
    times.encode.push_back(watch.lap());
    keep = keep + alone.hash(1);
    const double cold = watch.lap();
    keep = keep + alone.hash(5);
    times.hash.push_back((watch.lap() - cold) / 4);
    const auto [check, apply] =
        decode(codec::Verify::kTouched, codec::Writing::kStaged, round == 0);
    times.check.push_back(check);
    times.apply.push_back(apply);
    const auto early = decode(codec::Verify::kTouched, codec::Writing::kEarly, round == 0);
    times.one_pass.push_back(early.first + early.second);
    const auto unchecked = decode(codec::Verify::kOff, codec::Writing::kEarly, round == 0);
    times.unchecked.push_back(unchecked.first + unchecked.second);
  }
  return times;
}

std::vector<std::byte> encode_own(const Input& input, const OwnMode& mode,
                                  const kernels::KernelSet& kernels) {
  StagingSink stream;
  Run(input, mode, kernels).encode(true, stream);
  std::vector<std::byte> copy;
  const std::byte* bytes = stream.staging().contiguous(0, stream.used(), copy);
  return {bytes, bytes + stream.used()};
}

}  // namespace sparcl::bench
