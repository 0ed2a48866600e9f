#include "store/change_feed.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

namespace store {
namespace {

using base::ErrorCode;
using base::fail;

struct FreeNotify {
  void operator()(PGnotify* notify) const { PQfreemem(notify); }
};

struct ClearResult {
  void operator()(PGresult* result) const { PQclear(result); }
};

}  // namespace

Result<ChangeFeed> ChangeFeed::open(const std::string& url, std::string own) {
  ASSIGN_OR_RETURN(StoreUrl parsed, parse_store_url(url));
  base::Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) {
    return base::fail_errno(errno, "eventfd");
  }
  return ChangeFeed(std::move(parsed), std::move(own), std::move(wake));
}

void ChangeFeed::interrupt() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

Result<void> ChangeFeed::listen() {
  ASSIGN_OR_RETURN(handle_, base::with_context(connect_postgres(url_),
                                               base::cat("database: listen at ", url_.shown)));
  const std::string sql = base::cat("LISTEN ", kChangeChannel);
  const std::unique_ptr<PGresult, ClearResult> answer(PQexec(handle_.get(), sql.c_str()));
  if (PQresultStatus(answer.get()) != PGRES_COMMAND_OK) {
    auto error = fail(ErrorCode::unavailable, "database: listen at ", url_.shown, ": ",
                      first_line(PQerrorMessage(handle_.get())));
    handle_.reset();
    return error;
  }
  return {};
}

void ChangeFeed::take(std::string_view payload, News& news) const {
  bool is_first = true;
  for (const std::string_view word : base::split(payload, ' ')) {
    if (std::exchange(is_first, false)) {
      if (word == own_) {
        return;
      }
      continue;
    }
    const size_t colon = word.find(':');
    const bool has_id = colon != std::string_view::npos;
    news.notices.push_back({.kind = std::string(word.substr(0, colon)),
                            .id = std::string(has_id ? word.substr(colon + 1) : "")});
  }
}

Result<ChangeFeed::News> ChangeFeed::next() {
  News news;
  if (!handle_) {
    RETURN_IF_ERROR(listen());
    news.missed = true;
    return news;
  }
  for (;;) {
    while (const std::unique_ptr<PGnotify, FreeNotify> notify{PQnotifies(handle_.get())}) {
      take(notify->extra, news);
    }
    if (!news.notices.empty()) {
      return news;
    }
    std::array<pollfd, 2> sockets{{
        {.fd = PQsocket(handle_.get()), .events = POLLIN, .revents = 0},
        {.fd = wake_.get(), .events = POLLIN, .revents = 0},
    }};
    if (::poll(sockets.data(), sockets.size(), -1) < 0 && errno != EINTR) {
      return base::fail_errno(errno, "poll");
    }
    if (sockets[1].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const auto taken = ::read(wake_.get(), &count, sizeof count);
      return news;
    }
    if (PQconsumeInput(handle_.get()) == 0 || PQstatus(handle_.get()) != CONNECTION_OK) {
      auto error = fail(ErrorCode::unavailable, "database: listen at ", url_.shown, ": ",
                        first_line(PQerrorMessage(handle_.get())));
      handle_.reset();
      return error;
    }
  }
}

}  // namespace store
