// Follows a table (cursor.sql) without a race and without polling: subscribe, read from the cursor to the
// end, wait; read again on each wake and on each gap. Prints each row once, in order, whatever happens to hub
// and connections.
//
//   PGWAKE_DATABASE=dbname=shop ./cursor
#include <libpq-fe.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <pgwake/pgwake.hpp>
#include <string>

namespace {

struct clear {
  void operator()(PGresult* rows) const { PQclear(rows); }
};
struct finish {
  void operator()(PGconn* conn) const { PQfinish(conn); }
};

class orders {
 public:
  // Reading has a connection of its own, which any pooler may serve.
  explicit orders(const std::string& database) : conn_(PQconnectdb(database.c_str())) {}

  // Prints what is behind the cursor. The connection is made anew until it works.
  void read_again() {
    while (!read_on()) PQreset(conn_.get());
  }

 private:
  bool read_on() {
    const char* const values[] = {cursor_.c_str()};
    const std::unique_ptr<PGresult, clear> rows(
        PQexecParams(conn_.get(), "SELECT id, what FROM orders WHERE id > $1 ORDER BY id", 1, nullptr, values,
                     nullptr, nullptr, 0));
    if (PQresultStatus(rows.get()) != PGRES_TUPLES_OK) {
      std::cerr << PQerrorMessage(conn_.get());
      return false;
    }
    for (int i = 0; i < PQntuples(rows.get()); ++i) {
      cursor_ = PQgetvalue(rows.get(), i, 0);
      std::cout << cursor_ << ' ' << PQgetvalue(rows.get(), i, 1) << '\n';
    }
    std::cout.flush();
    return true;
  }

  std::unique_ptr<PGconn, finish> conn_;
  std::string cursor_ = "0";  // the last number printed
};

}  // namespace

int main() {
  try {
    const char* database = std::getenv("PGWAKE_DATABASE");
    orders table(database != nullptr ? database : "");
    pgwake::listener listener;
    listener.subscribe("orders");
    table.read_again();  // after subscribing: what is committed from here on brings a wake

    while (const auto event = listener.next()) {
      if (event->is_refused()) throw std::runtime_error(std::string(event->reason()));
      if (event->read_again()) table.read_again();  // a change, or a gap
    }
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
  return 0;
}
