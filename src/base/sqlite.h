#pragma once
// SQLite behind RAII: one connection, its statements and transactions. Every failure is Error(kIo)
// naming the file. Not thread-safe: one user at a time.
#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct SqliteClose {
  void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
};
using SqliteHandle = std::unique_ptr<sqlite3, SqliteClose>;

// The application id that an SQLite file carries in its header, or nothing when it is no SQLite
// file or cannot be read. Takes no locks and writes nothing.
std::optional<uint32_t> peek_application_id(const std::filesystem::path& file);

// In place of a file: a database that lives as long as its connection.
inline constexpr const char* kInMemory = ":memory:";

// A connection for reading and writing; makes an empty file where there is none.
class Database {
 public:
  explicit Database(const std::filesystem::path& file);

  // How long a lock of another connection is waited for; at first 5 s.
  void set_busy_timeout(int ms);

  void execute(const std::string& sql);
  bool try_execute(const std::string& sql);  // false where execute() would throw

  // Switches the write-ahead log on; false where the file system has no room for one. Others may be
  // opening the file at the same time.
  bool use_wal();

  int64_t pragma_number(std::string_view name);
  std::string pragma_text(std::string_view name);

  // Whether the last failure was a lock that another connection did not let go in time.
  bool was_busy() const;

  sqlite3* handle() const { return handle_.get(); }
  // Throws, with the message of the last failure.
  [[noreturn]] void fail(std::string_view what) const;

 private:
  std::filesystem::path file_;
  SqliteHandle handle_;
};

// A prepared statement. Text and bytes are bound without a copy: they have to live until the next
// reset() or bind.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);

  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, int64_t value);
  Statement& bind(int index, std::span<const std::byte> bytes);

  bool step();  // true: there is a row to read
  void reset();
  void run();  // to the end, then reset

  int64_t integer(int column) const { return sqlite3_column_int64(handle_.get(), column); }
  double real(int column) const { return sqlite3_column_double(handle_.get(), column); }
  std::string text(int column) const;
  std::vector<std::byte> bytes(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
  };
  Database& database_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
};

// A write transaction, rolled back unless commit() is reached. It takes the write lock at once: one
// that starts by reading cannot wait for the lock later (SQLite answers "busy" without asking the
// busy handler).
class WriteTransaction {
 public:
  explicit WriteTransaction(Database& database);
  ~WriteTransaction();
  WriteTransaction(const WriteTransaction&) = delete;
  WriteTransaction& operator=(const WriteTransaction&) = delete;

  void commit();

 private:
  Database& database_;
  bool is_open_ = true;
};

}  // namespace tessera
