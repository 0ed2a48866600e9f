#include "store/postgres_driver.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "base/random.h"
#include "store/change_feed.h"

namespace store {
namespace {

using base::ErrorCode;
using base::fail;
using std::chrono::milliseconds;

// A statement of the gateway takes milliseconds; the server gives it up after this.
constexpr milliseconds kStatementMax{10'000};
// Until another writer has committed; below the former, so that the message says which it was.
constexpr milliseconds kLockMax{8'000};
// What a gateway that stands still (stopped, swapped out) may hold others up.
constexpr milliseconds kIdleInTransactionMax{10'000};
// And where the server itself says nothing: behind its own limit.
constexpr milliseconds kAnswerPatience{15'000};
// Of a migration: an index over millions of rows.
constexpr milliseconds kLongPatience{3'600'000};
// A server that was killed is back in a few seconds; the store's thread waits meanwhile.
constexpr milliseconds kOutcomePatience{8'000};
constexpr milliseconds kOutcomePause{100};
// An outage that is younger is waited for: a server starts anew or fails over within 1 to 3 s, and
// whoever asks a gateway waits for longer.
constexpr milliseconds kYoungOutage{5'000};
// Between tries to connect, the shorter one while the outage is young; each try to a host that
// swallows packets costs connect_timeout.
constexpr milliseconds kPauseMin{100};
constexpr milliseconds kPauseMax{2'000};
constexpr int kServerVersionMin = 130'000;
// The key of the lock that writers of one database take; any number that nobody else uses there.
constexpr std::string_view kWriterLock = "7310868801923";
constexpr std::string_view kForgetWritersAfterMs = "604800000";  // a week without a write

constexpr size_t kNotifyBytesMax = 7'900;  // the server takes less than 8,000

constexpr std::string_view kNowMs = "(EXTRACT(EPOCH FROM now()) * 1000)::BIGINT";

bool is_in(std::string_view state, std::initializer_list<std::string_view> states) {
  return std::ranges::find(states, state) != states.end();
}

// By SQLSTATE (PostgreSQL's appendix A).
ErrorCode code_of(std::string_view state) {
  if (state.starts_with("23")) {
    return ErrorCode::conflict;
  }
  if (state == "53100") {
    return ErrorCode::disk_full;
  }
  // Bytes that are no text of the database's encoding.
  if (is_in(state, {"22021", "22P05"})) {
    return ErrorCode::invalid_field;
  }
  // Out of connections or memory, timeouts, a lock that was not had, repeatable failures.
  if (state.starts_with("53") || is_in(state, {"57014", "55P03", "40001", "40P01"})) {
    return ErrorCode::unavailable;
  }
  return ErrorCode::internal;
}

// The server has ended the session, or is one that takes no writes (any more).
bool ends_session(std::string_view state) {
  return state.empty() || state.starts_with("57P") || is_in(state, {"25006", "25P03"});
}

// The highest of $1, $2, ... in a statement; a '$' stands for nothing else in ours.
size_t parameter_count(std::string_view sql) {
  size_t count = 0;
  for (size_t at = sql.find('$'); at != std::string_view::npos; at = sql.find('$', at + 1)) {
    const size_t end = std::min(sql.find_first_not_of("0123456789", at + 1), sql.size());
    const auto number = base::parse_number<size_t>(sql.substr(at + 1, end - at - 1));
    count = std::max(count, number.value_or(0));
  }
  return count;
}

class PostgresStatement final : public Compiled {
 public:
  PostgresStatement(PostgresConnection& connection, std::string_view sql)
      : connection_(connection),
        sql_(sql),
        name_(connection.new_name()),
        values_(parameter_count(sql)) {}
  PostgresStatement(const PostgresStatement&) = delete;
  PostgresStatement& operator=(const PostgresStatement&) = delete;
  ~PostgresStatement() override { connection_.forget(name_); }

  void bind_text(int parameter, std::string_view text) override {
    // Values go as texts that end with NUL, and no text of PostgreSQL holds one.
    has_nul_ = has_nul_ || text.find('\0') != std::string_view::npos;
    slot(parameter).emplace(text);
  }
  void bind_int(int parameter, int64_t value) override {
    slot(parameter).emplace(std::to_string(value));
  }
  void bind_null(int parameter) override { slot(parameter).reset(); }

  Result<bool> step() override {
    if (!answer_) {
      if (has_nul_) {
        return fail(ErrorCode::invalid_field, "a text holds a NUL byte");
      }
      PostgresConnection::Values values;
      for (const auto& value : values_) {
        values.texts.push_back(value ? value->c_str() : nullptr);
      }
      ASSIGN_OR_RETURN(answer_, connection_.execute(name_, sql_, values));
      row_ = -1;
    }
    return ++row_ < PQntuples(answer_.get());
  }
  void reset() override {
    answer_.reset();
    std::ranges::fill(values_, std::nullopt);
    has_nul_ = false;
  }
  [[nodiscard]] int64_t get_int(int column) const override {
    const std::string_view text = get_text(column);
    return text == "t" ? 1 : base::parse_number<int64_t>(text).value_or(0);
  }
  [[nodiscard]] std::string_view get_text(int column) const override {
    return {PQgetvalue(answer_.get(), row_, column),
            static_cast<size_t>(PQgetlength(answer_.get(), row_, column))};
  }
  [[nodiscard]] bool is_null(int column) const override {
    return PQgetisnull(answer_.get(), row_, column) != 0;
  }

 private:
  // One too many goes to the server, which says so.
  std::optional<std::string>& slot(int parameter) {
    const auto index = static_cast<size_t>(parameter);
    if (values_.size() < index) {
      values_.resize(index);
    }
    return values_[index - 1];
  }

  PostgresConnection& connection_;
  std::string sql_;
  PostgresConnection::Name name_;
  std::vector<std::optional<std::string>> values_;  // NULL where nothing was bound
  bool has_nul_ = false;
  PostgresConnection::Answer answer_;
  int row_ = -1;
};

}  // namespace

PostgresConnection::PostgresConnection(StoreUrl url) : url_(std::move(url)) {
  base::KernelRandom random;
  writer_ = base::new_id(random, "wrt");
}

Result<std::unique_ptr<PostgresConnection>> PostgresConnection::open(const StoreUrl& url) {
  std::unique_ptr<PostgresConnection> connection(new PostgresConnection(url));
  RETURN_IF_ERROR(connection->ensure_connected());
  return connection;
}

// --- connection

std::string PostgresConnection::settings_script() const {
  const auto ms = [](milliseconds value) { return std::to_string(value.count()); };
  return base::cat("SET statement_timeout = ", long_statements_ ? "0" : ms(kStatementMax),
                   "; SET lock_timeout = ", ms(kLockMax),
                   "; SET idle_in_transaction_session_timeout = ", ms(kIdleInTransactionMax),
                   "; SET default_transaction_isolation = 'read committed'"
                   "; SET client_min_messages = error"
                   "; SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2"
                   "; SET tcp_keepalives_count = 3; SET tcp_user_timeout = 10000");
}

// Of a server that was there.
bool PostgresConnection::is_young_outage() const {
  return generation_ > 0 && away_since_ && Clock::now() < *away_since_ + kYoungOutage;
}

Result<void> PostgresConnection::connect() {
  auto connected = try_connect();
  while (!connected && connected.error().code == ErrorCode::unavailable && patient_ &&
         is_young_outage()) {
    waiting_ = true;
    std::this_thread::sleep_until(next_try_);
    connected = try_connect();
  }
  waiting_ = false;
  return connected;
}

Result<void> PostgresConnection::try_connect() {
  const auto begun = Clock::now();
  if (begun < next_try_) {
    return fail(ErrorCode::unavailable, "database: ", url_.shown, " does not answer");
  }
  auto connected = open_handle();
  if (!connected) {
    handle_.reset();
    away_since_ = away_since_.value_or(begun);
    pause_ = is_young_outage() ? kPauseMin : std::clamp(pause_ * 2, kPauseMin, kPauseMax);
    next_try_ = Clock::now() + pause_;
    return base::with_context(std::move(connected), base::cat("database: connect to ", url_.shown));
  }
  away_since_.reset();
  pause_ = milliseconds(0);
  return {};
}

// A server that this program can use; tells it how.
Result<void> PostgresConnection::open_handle() {
  ASSIGN_OR_RETURN(handle_, connect_postgres(url_));
  PGconn* const handle = handle_.get();
  PQsetnonblocking(handle, 1);
  ++generation_;
  forgotten_.clear();
  if (PQserverVersion(handle) < kServerVersionMin) {
    return fail(ErrorCode::not_supported, "the server is older than PostgreSQL 13");
  }
  const char* const encoding = PQparameterStatus(handle, "server_encoding");
  if (encoding == nullptr || std::string_view(encoding) != "UTF8") {
    return fail(ErrorCode::not_supported, "the database's encoding is not UTF8");
  }
  RETURN_IF_ERROR(simple(settings_script()));
  ASSIGN_OR_RETURN(const Answer writers, simple("SELECT to_regclass('store_writers')"));
  has_writers_ = PQgetisnull(writers.get(), 0, 0) == 0;
  if (has_writers_) {
    RETURN_IF_ERROR(simple(base::cat("DELETE FROM store_writers WHERE at_ms < ", kNowMs, " - ",
                                     kForgetWritersAfterMs)));
  }
  return {};
}

Result<void> PostgresConnection::ensure_connected() {
  // A server that went away meanwhile has closed the socket, perhaps behind a last message.
  constexpr int kLastMessagesMax = 16;
  for (int i = 0; handle_ && i < kLastMessagesMax; ++i) {
    pollfd readable{.fd = PQsocket(handle_.get()), .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, 0) == 0) {
      break;
    }
    if (PQconsumeInput(handle_.get()) == 0 || PQisBusy(handle_.get()) != 0 ||
        PQstatus(handle_.get()) != CONNECTION_OK) {
      lose();
    }
  }
  if (!handle_) {
    RETURN_IF_ERROR(connect());
  }
  if (forgotten_.empty()) {
    return {};
  }
  std::string script;
  for (const std::string& name : std::exchange(forgotten_, {})) {
    script += base::cat("DEALLOCATE ", name, ";");
  }
  RETURN_IF_ERROR(simple(script));
  return {};
}

void PostgresConnection::lose() {
  handle_.reset();
  may_repeat_ = may_repeat_ || in_transaction_;
}

std::unexpected<base::Error> PostgresConnection::lost(std::string_view step) {
  const std::string message(handle_ ? first_line(PQerrorMessage(handle_.get())) : "");
  lose();
  return fail(ErrorCode::unavailable, "database: ", step, ": the connection to ", url_.shown,
              " is lost", message.empty() ? "" : ": ", message);
}

// --- one exchange with the server

Result<void> PostgresConnection::wait_socket(short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    pollfd socket{.fd = PQsocket(handle_.get()), .events = events, .revents = 0};
    const int ready = ::poll(&socket, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) {
      return {};
    }
    if (ready == 0) {
      return fail(ErrorCode::unavailable, "no answer in time");
    }
    if (errno != EINTR) {
      return base::fail_errno(errno, "poll");
    }
  }
}

Result<void> PostgresConnection::flush(Clock::time_point deadline) {
  for (;;) {
    const int left = PQflush(handle_.get());
    if (left == 0) {
      return {};
    }
    if (left < 0) {
      return fail(ErrorCode::unavailable, "not sent");
    }
    RETURN_IF_ERROR(wait_socket(POLLIN | POLLOUT, deadline));
    // A server that sends before it reads on (notices) is read.
    if (PQconsumeInput(handle_.get()) == 0) {
      return fail(ErrorCode::unavailable, "not sent");
    }
  }
}

Result<PostgresConnection::Answer> PostgresConnection::await_answer(std::string_view step) {
  const auto deadline = Clock::now() + (long_statements_ ? kLongPatience : kAnswerPatience);
  if (!flush(deadline)) {
    return lost(step);
  }
  Answer out;
  for (;;) {
    while (PQisBusy(handle_.get()) != 0) {
      if (!wait_socket(POLLIN, deadline) || PQconsumeInput(handle_.get()) == 0) {
        return lost(step);
      }
    }
    Answer next(PQgetResult(handle_.get()));
    if (!next) {
      break;
    }
    // An error ends a script; what libpq adds to it says less.
    if (!out || PQresultStatus(out.get()) != PGRES_FATAL_ERROR) {
      out = std::move(next);
    }
  }
  return checked(std::move(out), step);
}

// Of what a server says the primary message is shown only: details repeat values.
Result<PostgresConnection::Answer> PostgresConnection::checked(Answer answer,
                                                               std::string_view step) {
  const auto status = answer ? PQresultStatus(answer.get()) : PGRES_FATAL_ERROR;
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
    changes_ = base::parse_number<int64_t>(PQcmdTuples(answer.get())).value_or(0);
    return answer;
  }
  const auto field = [&answer](int name) {
    return std::string(first_line(answer ? PQresultErrorField(answer.get(), name) : nullptr));
  };
  const std::string state = field(PG_DIAG_SQLSTATE);
  const std::string message = field(PG_DIAG_MESSAGE_PRIMARY);
  if (PQstatus(handle_.get()) != CONNECTION_OK || ends_session(state)) {
    auto error = lost(step);
    if (!message.empty()) {
      error.error().message = base::cat("database: ", step, ": ", url_.shown, ": ", message);
    }
    return error;
  }
  may_repeat_ = may_repeat_ || is_in(state, {"40001", "40P01"});
  return fail(code_of(state), "database: ", step, ": ", message);
}

Result<PostgresConnection::Answer> PostgresConnection::simple(const std::string& sql) {
  constexpr std::string_view kStep = "run a script";
  if (!handle_ || PQsendQuery(handle_.get(), sql.c_str()) == 0) {
    return lost(kStep);
  }
  return await_answer(kStep);
}

Result<PostgresConnection::Answer> PostgresConnection::execute_once(Name& name,
                                                                    const std::string& sql,
                                                                    const Values& values) {
  constexpr std::string_view kPrepare = "prepare a statement";
  constexpr std::string_view kRun = "run a statement";
  if (!handle_) {
    return lost(kRun);
  }
  if (name.generation != generation_) {
    if (PQsendPrepare(handle_.get(), name.text.c_str(), sql.c_str(), 0, nullptr) == 0) {
      return lost(kPrepare);
    }
    RETURN_IF_ERROR(await_answer(kPrepare));
    name.generation = generation_;
  }
  if (PQsendQueryPrepared(handle_.get(), name.text.c_str(), static_cast<int>(values.texts.size()),
                          values.texts.data(), nullptr, nullptr, 0) == 0) {
    return lost(kRun);
  }
  return await_answer(kRun);
}

Result<PostgresConnection::Answer> PostgresConnection::execute(Name& name, const std::string& sql,
                                                               const Values& values) {
  if (in_transaction_) {
    return execute_once(name, sql, values);
  }
  RETURN_IF_ERROR(ensure_connected());
  auto answer = execute_once(name, sql, values);
  if (answer || handle_ || !sql.starts_with("SELECT")) {
    return answer;
  }
  RETURN_IF_ERROR(ensure_connected());
  return execute_once(name, sql, values);
}

PostgresConnection::Name PostgresConnection::new_name() {
  return {.text = base::cat("s", ++names_), .generation = 0};
}

void PostgresConnection::forget(const Name& name) {
  if (name.generation == generation_) {
    forgotten_.push_back(name.text);
  }
}

// --- Connection

Result<std::shared_ptr<Compiled>> PostgresConnection::compile(std::string_view sql) {
  return std::make_shared<PostgresStatement>(*this, sql);
}

Result<void> PostgresConnection::run_script(const std::string& sql) {
  if (!in_transaction_) {
    RETURN_IF_ERROR(ensure_connected());
  }
  RETURN_IF_ERROR(simple(sql));
  return {};
}

std::string PostgresConnection::begin_script() const {
  std::string out = base::cat("BEGIN; SELECT pg_advisory_xact_lock(", kWriterLock, ");");
  if (has_writers_) {
    out += base::cat("INSERT INTO store_writers (id, number, at_ms) VALUES ('", writer_, "', ",
                     transaction_, ", ", kNowMs, ") ",
                     "ON CONFLICT (id) DO UPDATE SET number = excluded.number, "
                     "at_ms = excluded.at_ms");
  }
  return out;
}

Result<void> PostgresConnection::begin() {
  roll_back();  // what a rollback that failed has left open
  may_repeat_ = false;
  notices_.clear();
  constexpr int kTries = 2;  // the second one over a new connection
  for (int i = 1;; ++i) {
    RETURN_IF_ERROR(ensure_connected());
    ++transaction_;
    auto begun = simple(begin_script());
    if (begun) {
      in_transaction_ = true;
      return {};
    }
    if (handle_ || i == kTries) {
      roll_back();
      return std::unexpected(std::move(begun).error());
    }
  }
}

void PostgresConnection::note(std::string notice) {
  if (std::ranges::find(notices_, notice) == notices_.end()) {
    notices_.push_back(std::move(notice));
  }
}

// In one exchange with the commit itself.
std::string PostgresConnection::commit_script() const {
  std::string out;
  std::string payload;
  const auto notify = [&out, &payload] {
    out += base::cat("SELECT pg_notify('", kChangeChannel, "', '", payload, "');");
  };
  for (const std::string& notice : notices_) {
    if (!payload.empty() && payload.size() + notice.size() >= kNotifyBytesMax) {
      notify();
      payload.clear();
    }
    payload = base::cat(payload.empty() ? writer_ : payload, " ", notice);
  }
  if (!payload.empty()) {
    notify();
  }
  return out + "COMMIT";
}

Result<void> PostgresConnection::commit() {
  in_transaction_ = false;  // from here on a lost connection does not mean that nothing happened
  auto answer = simple(commit_script());
  if (answer) {
    if (std::string_view(PQcmdStatus(answer->get())) != "COMMIT") {
      return fail(ErrorCode::internal, "database: a statement of the transaction had failed");
    }
    return {};
  }
  if (handle_) {
    roll_back();
    return std::unexpected(std::move(answer).error());
  }
  return find_out_outcome();
}

void PostgresConnection::roll_back() {
  if (handle_ && PQtransactionStatus(handle_.get()) != PQTRANS_IDLE) {
    if (!simple("ROLLBACK") && handle_) {
      lose();  // the server ends what a connection has left open
    }
  }
  in_transaction_ = false;
}

Result<bool> PostgresConnection::was_committed() {
  next_try_ = Clock::now();
  RETURN_IF_ERROR(ensure_connected());
  // Whoever has the lock knows that the other is over.
  ASSIGN_OR_RETURN(const Answer row,
                   simple(base::cat("BEGIN; SELECT pg_advisory_xact_lock(", kWriterLock,
                                    "); SELECT 1 FROM store_writers WHERE id = '", writer_,
                                    "' AND number = ", transaction_)));
  const bool found = PQntuples(row.get()) == 1;
  roll_back();
  return found;
}

Result<void> PostgresConnection::find_out_outcome() {
  const auto end = Clock::now() + kOutcomePatience;
  while (has_writers_) {
    const auto committed = was_committed();
    if (committed && *committed) {
      return {};
    }
    if (committed) {
      may_repeat_ = true;
      return fail(ErrorCode::unavailable, "database: the connection to ", url_.shown,
                  " was lost before a commit");
    }
    roll_back();
    if (Clock::now() >= end) {
      break;
    }
    std::this_thread::sleep_for(kOutcomePause);
  }
  auto error = fail(ErrorCode::unavailable, "database: the connection to ", url_.shown,
                    " was lost during a commit: whether it took effect is not known");
  return std::unexpected(std::move(error).error().with("outcome", "unknown"));
}

// Texts are compared by their bytes and lower() changes ASCII only, as with SQLite; WITHOUT ROWID
// is SQLite's word for what every table here is.
std::string PostgresConnection::schema_text(std::string_view sql) const {
  constexpr std::string_view kText = " TEXT";
  constexpr std::string_view kWithoutRowId = " WITHOUT ROWID";
  std::string out;
  for (size_t i = 0; i < sql.size();) {
    const std::string_view rest = sql.substr(i);
    if (rest.starts_with(kWithoutRowId)) {
      i += kWithoutRowId.size();
    } else if (rest.starts_with(kText) && rest.find_first_of(" ,;)\n", 1) == kText.size()) {
      out += " TEXT COLLATE \"C\"";
      i += kText.size();
    } else {
      out += sql[i++];
    }
  }
  return out;
}

Result<bool> PostgresConnection::has_table(std::string_view name) {
  PostgresStatement statement(*this, "SELECT to_regclass($1) IS NOT NULL");
  statement.bind_text(1, name);
  ASSIGN_OR_RETURN(const bool row, statement.step());
  return row && statement.get_int(0) != 0;
}

// Also the moment at which the schema may have changed.
void PostgresConnection::allow_long_statements(bool allowed) {
  long_statements_ = allowed;
  if (handle_) {
    lose();
  }
}

}  // namespace store
