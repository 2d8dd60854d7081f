// libpqxx: a notification_receiver and await_notification().
#include <chrono>
#include <iostream>
#include <pqxx/pqxx>
#include <thread>

namespace {

class printer : public pqxx::notification_receiver {
 public:
  explicit printer(pqxx::connection_base& c) : pqxx::notification_receiver(c, "drivers") {}
  void operator()(const std::string& payload, int) override { std::cout << "got " << payload << std::endl; }
};

void listen(const char* conninfo) {
  pqxx::connection connection(conninfo);
  const printer p(connection);
  std::cout << "ready" << std::endl;
  for (;;) {
    connection.await_notification();
    if (!connection.is_open()) throw pqxx::broken_connection();
  }
}

}  // namespace

int main(int, char** argv) {
  for (;;) {
    try {
      listen(argv[1]);
    } catch (const std::exception& e) {
      std::cout << "lost" << std::endl;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}
