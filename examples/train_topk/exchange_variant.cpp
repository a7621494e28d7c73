#include "exchange_variant.hpp"

#include <fmt/format.h>

#include <charconv>
#include <sstream>
#include <stdexcept>

namespace training {
namespace {

struct MethodName {
  Method method;
  const char* name;
};
constexpr MethodName kMethods[] = {{Method::kDense, "dense"},
                                   {Method::kMpi, "mpi"},
                                   {Method::kTopK, "topk"},
                                   {Method::kMask, "mask"}};

bool is_sparse(Method method) { return method == Method::kTopK || method == Method::kMask; }

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, ':');) parts.push_back(part);
  return parts;
}

double parse_density(const std::string& text) {
  double density = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), density);
  if (error != std::errc() || end != text.data() + text.size() || !(density > 0 && density <= 1))
    throw std::invalid_argument("density");
  return density;
}

}  // namespace

std::string Variant::name() const {
  for (const MethodName& known : kMethods) {
    if (known.method != method) continue;
    return is_sparse(method)
               ? fmt::format("{}:{}{}", known.name, density, has_feedback ? "" : ":forget")
               : known.name;
  }
  return "";
}

Variant parse_variant(const std::string& text) {
  const std::vector<std::string> parts = split(text);
  for (const MethodName& known : kMethods) {
    if (parts.empty() || parts[0] != known.name) continue;
    if (!is_sparse(known.method) && parts.size() == 1) return {known.method, 1, false};
    if (!is_sparse(known.method) || parts.size() < 2 || parts.size() > 3 ||
        (parts.size() == 3 && parts[2] != "forget"))
      break;
    try {
      return {known.method, parse_density(parts[1]), parts.size() == 2};
    } catch (const std::invalid_argument&) {
      throw std::invalid_argument(text + ": the density must be above 0 and at most 1");
    }
  }
  throw std::invalid_argument(text +
                              " is none of dense, mpi, topk:DENSITY, topk:DENSITY:forget, "
                              "mask:DENSITY, mask:DENSITY:forget");
}

std::vector<Variant> default_variants() {
  return {{Method::kMpi, 1, false},     {Method::kDense, 1, false},   {Method::kTopK, 0.01, true},
          {Method::kTopK, 0.01, false}, {Method::kTopK, 0.001, true}, {Method::kTopK, 0.001, false},
          {Method::kMask, 0.01, true},  {Method::kMask, 0.01, false}};
}

}  // namespace training
