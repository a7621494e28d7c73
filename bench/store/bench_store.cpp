// Versions of a bf16 model in a store (sparcl/store.h), beside other layouts of the same steps:
//   bench_store [--elements N] [--versions N] [--step S] [--folder DIR]
// The weights are float32 masters that each step moves a little, rounded to bf16. Bytes: deltas,
// skips and anchors; the whole tensor's XOR in zstd, level 1 (hf-xor); indices and values, the same
// in zstd (GRAIL); dense. Times: a publish beside a copy of all weights; a restore from nothing
// beside a read of a dense file, both from the disk, by turns; 64 versions later; one version
// later, also beside the same update with its bytes in memory; a publisher's pause while its store
// is written behind it. Prints one line of JSON: medians.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sparcl/sparcl.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/store/bare_apply.hpp"

namespace {

namespace fs = std::filesystem;

struct Options {
  std::uint64_t elements = std::uint64_t{64} << 20, versions = 100, pairs = 5;
  double step = 2.5e-6;
  std::string folder;
};

using Weights = std::vector<std::uint16_t>;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Function>
double seconds_of(Function&& function) {
  const double begin = now_s();
  function();
  return now_s() - begin;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

std::uint16_t rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// A model in training.
class Training {
 public:
  Training(std::uint64_t elements, double step)
      : step_(static_cast<float>(step)), masters_(elements), weights_(elements) {
    for (float& each : masters_)
      each = 0.02F * (next() + next() + next() + next());  // about normal
    for (std::size_t i = 0; i < elements; ++i) weights_[i] = rounded(masters_[i]);
  }
  // Returns how many weights have changed.
  std::uint64_t train() {
    std::uint64_t changed = 0;
    for (std::size_t i = 0; i < masters_.size(); ++i) {
      masters_[i] += step_ * next();
      const std::uint16_t weight = rounded(masters_[i]);
      changed += weight != weights_[i] ? 1 : 0;
      weights_[i] = weight;
    }
    return changed;
  }
  Weights& weights() { return weights_; }

 private:
  float next() {  // from -1 to 1; xorshift
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<float>(static_cast<std::int32_t>(random_ >> 32)) * 0x1p-31F;
  }

  std::uint64_t random_ = 88172645463325252ULL;
  float step_;
  std::vector<float> masters_;
  Weights weights_;
};

// A frame of zstd, level 1, and back.
class Frame {
 public:
  void make(const void* bytes, std::size_t count) {
    frame_.resize(ZSTD_compressBound(count));
    frame_.resize(checked(ZSTD_compress(frame_.data(), frame_.size(), bytes, count, 1)));
  }
  void read(void* into, std::size_t count) const {
    checked(ZSTD_decompress(into, count, frame_.data(), frame_.size()));
  }
  std::size_t bytes() const { return frame_.size(); }

 private:
  static std::size_t checked(std::size_t result) {
    if (ZSTD_isError(result) != 0) throw std::runtime_error(ZSTD_getErrorName(result));
    return result;
  }
  std::vector<char> frame_;
};

// What other layouts need for one step: bytes, and seconds on one core to make and to apply it, in
// memory and without a checksum.
struct OtherLayouts {
  std::uint64_t hf_xor = 0, pairs = 0, pairs_zstd = 0;
  std::vector<double> hf_xor_make, hf_xor_apply, pairs_make, pairs_apply;

  void add(const Weights& before, const Weights& after) {
    difference_.resize(before.size());
    hf_xor_make.push_back(seconds_of([&] {
      for (std::size_t i = 0; i < before.size(); ++i) difference_[i] = before[i] ^ after[i];
      frame_.make(difference_.data(), 2 * difference_.size());
    }));
    hf_xor += frame_.bytes();
    held_ = before;
    hf_xor_apply.push_back(seconds_of([&] {
      frame_.read(difference_.data(), 2 * difference_.size());
      for (std::size_t i = 0; i < held_.size(); ++i) held_[i] ^= difference_[i];
    }));
    if (held_ != after) throw std::runtime_error("hf-xor gives other weights");
    pairs_make.push_back(seconds_of([&] {
      indices_.clear();
      values_.clear();
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (before[i] == after[i]) continue;
        indices_.push_back(static_cast<std::uint32_t>(i));
        values_.push_back(after[i]);
      }
      frame_.make(indices_.data(), 4 * indices_.size());
      second_.make(values_.data(), 2 * values_.size());
    }));
    pairs += 4 * indices_.size() + 2 * values_.size();
    pairs_zstd += frame_.bytes() + second_.bytes();
    held_ = before;
    pairs_apply.push_back(seconds_of([&] {
      frame_.read(indices_.data(), 4 * indices_.size());
      second_.read(values_.data(), 2 * values_.size());
      for (std::size_t i = 0; i < indices_.size(); ++i) held_[indices_[i]] = values_[i];
    }));
    if (held_ != after) throw std::runtime_error("pairs give other weights");
  }

 private:
  Frame frame_, second_;
  Weights difference_, held_, values_;
  std::vector<std::uint32_t> indices_;
};

sparcl::State state_of(Weights& weights) {
  sparcl::State state;
  state.add("weights", weights.data(), sparclBfloat16, {weights.size()});
  return state;
}

void read_dense(const std::string& path, Weights& into) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto* const bytes = reinterpret_cast<char*>(into.data());
  for (std::size_t at = 0; at < 2 * into.size();) {
    const ssize_t got = ::read(file, bytes + at, 2 * into.size() - at);
    if (got <= 0) throw std::runtime_error("cannot read " + path);
    at += static_cast<std::size_t>(got);
  }
  ::close(file);
}

// So that readers read from the disk.
void drop_from_page_cache(const std::string& folder) {
  for (const auto& each : fs::recursive_directory_iterator(folder)) {
    if (!each.is_regular_file()) continue;
    const int file = ::open(each.path().c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

nlohmann::json measure_readers(const Options& options, const std::string& url, Weights& trained) {
  const std::string dense = options.folder + "/dense";
  std::ofstream(dense, std::ios::binary)
      .write(reinterpret_cast<const char*>(trained.data()),
             static_cast<std::streamsize>(2 * trained.size()));
  std::vector<double> cold, read, ratios, late, next, next_ratios;
  for (std::uint64_t pair = 0; pair < options.pairs; ++pair) {
    drop_from_page_cache(options.folder);
    {
      Weights into(trained.size());
      read.push_back(seconds_of([&] { read_dense(dense, into); }));
    }
    Weights into(trained.size());
    sparcl::State state = state_of(into);
    const sparcl::Store store(url);
    const std::uint64_t newest = store.latest(), eight = newest / 8 * 8;
    cold.push_back(seconds_of([&] { store.restore(state); }));
    if (into != trained) throw std::runtime_error("the restored weights are others");
    ratios.push_back(cold.back() / read.back());
    if (newest < 80) continue;
    store.restore(state, eight - 64);
    late.push_back(seconds_of([&] { store.restore(state, eight); }));
    Weights held = into;
    next.push_back(seconds_of([&] { store.restore(state, eight + 1); }));
    next_ratios.push_back(next.back() / bench::bare_apply_s(url, eight + 1, held));
    if (into != held) throw std::runtime_error("the bare apply gives other weights");
  }
  return {{"cold_s", median(cold)},         {"dense_read_s", median(read)},
          {"cold_ratio", median(ratios)},   {"late_by_64_s", median(late)},
          {"next_version_s", median(next)}, {"next_version_ratio", median(next_ratios)}};
}

// What sparclPublish takes of the training while a thread writes the store behind it, beside bare
// stores of the values that changed.
nlohmann::json measure_pause(const Options& options, Training& training) {
  sparcl::State state = state_of(training.weights());
  const sparcl::Store store("file:" + options.folder + "/behind");
  sparcl::Publisher::Options behind;
  behind.store = &store;
  sparcl::Publisher publisher(state, behind);
  publisher.publish(1);
  std::vector<double> pauses, stores, ratios;
  std::vector<std::uint32_t> indices;
  Weights values, held;
  for (std::uint64_t version = 2; version < options.pairs + 2; ++version) {
    publisher.wait_stored(version - 1, 600);
    held = training.weights();
    training.train();
    indices.clear();
    values.clear();
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (held[i] == training.weights()[i]) continue;
      indices.push_back(static_cast<std::uint32_t>(i));
      values.push_back(training.weights()[i]);
    }
    stores.push_back(seconds_of([&] {
      for (std::size_t i = 0; i < indices.size(); ++i) held[indices[i]] = values[i];
    }));
    if (held != training.weights()) throw std::runtime_error("the bare stores give other weights");
    pauses.push_back(seconds_of([&] { publisher.publish(version); }));
    ratios.push_back(pauses.back() / stores.back());
  }
  publisher.wait_stored(options.pairs + 1, 600);
  return {{"pause_s", median(pauses)},
          {"bare_stores_s", median(stores)},
          {"pause_ratio", median(ratios)}};
}

nlohmann::json run(const Options& options) {
  const std::string url = "file:" + options.folder + "/store";
  Training training(options.elements, options.step);
  Weights before = training.weights();
  sparcl::State state = state_of(training.weights());
  OtherLayouts others;
  std::vector<double> publish, copy;
  std::uint64_t changed = 0;
  {
    sparcl::Store store(url);
    store.publish(state, 1);
    for (std::uint64_t version = 2; version <= options.versions; ++version) {
      changed += training.train();
      others.add(before, training.weights());
      copy.push_back(seconds_of([&] { before = training.weights(); }));
      publish.push_back(seconds_of([&] { store.publish(state, version); }));
    }
  }
  const sparcl::Store store(url);
  std::uint64_t deltas = 0, skips = 0, anchors = 0;
  for (const sparcl::Store::Version& each : store.list()) {
    deltas += each.delta_bytes;
    skips += each.skip_bytes;
    anchors += each.anchor_bytes;
  }
  const std::uint64_t dense = 2 * options.elements;
  nlohmann::json row{
      {"elements", options.elements},
      {"versions", options.versions},
      {"changed", static_cast<double>(changed) / (static_cast<double>(options.versions - 1) *
                                                  static_cast<double>(options.elements))},
      {"delta_bytes", deltas},
      {"skip_bytes", skips},
      {"anchor_bytes", anchors},
      {"bits_per_change", 8.0 * static_cast<double>(deltas) /
                              static_cast<double>(std::max<std::uint64_t>(changed, 1))},
      {"hf_xor_bytes", others.hf_xor},
      {"pairs_bytes", others.pairs},
      {"pairs_zstd_bytes", others.pairs_zstd},
      {"hf_xor_make_s", median(others.hf_xor_make)},
      {"hf_xor_apply_s", median(others.hf_xor_apply)},
      {"pairs_zstd_make_s", median(others.pairs_make)},
      {"pairs_zstd_apply_s", median(others.pairs_apply)},
      {"dense_bytes", dense * options.versions},
      {"publish_s", median(publish)},
      {"copy_s", median(copy)}};
  row.update(measure_readers(options, url, training.weights()));
  row.update(measure_pause(options, training));
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Versions of a model in a store: bytes and times");
  Options options;
  app.add_option("--elements", options.elements);
  app.add_option("--versions", options.versions)->check(CLI::Range(2, 100'000));
  app.add_option("--pairs", options.pairs);
  app.add_option("--step", options.step, "of the masters; 2.5e-6 changes about 1 % of the weights");
  app.add_option("--folder", options.folder, "where the store is made; default: a temporary one");
  CLI11_PARSE(app, argc, argv);
  const bool is_own = options.folder.empty();
  if (is_own) {
    std::string path = (fs::temp_directory_path() / "bench-store-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) return 1;
    options.folder = path;
  }
  int code = 0;
  try {
    fmt::print("{}\n", run(options).dump());
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_store: {}\n", error.what());
    code = 1;
  }
  std::error_code ignored;
  if (is_own) fs::remove_all(options.folder, ignored);
  return code;
}
