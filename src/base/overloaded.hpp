#pragma once

namespace sparcl {

// One visitor out of several lambdas, for std::visit.
template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

}  // namespace sparcl
