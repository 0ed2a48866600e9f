// What nearly every file includes, parsed once a build (cmake/Precompiled.cmake). Nothing of ours,
// and no file relies on it: the release build goes without.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <expected>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
