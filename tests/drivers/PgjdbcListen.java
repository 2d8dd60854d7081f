// pgjdbc over junixsocket's factory: its getNotifications(timeout), and isValid() between.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

public class PgjdbcListen {
  static void listen(String url, Properties properties) throws SQLException {
    try (Connection connection = DriverManager.getConnection(url, properties)) {
      try (Statement statement = connection.createStatement()) {
        statement.execute("LISTEN drivers");
      }
      System.out.println("ready");
      PGConnection listener = connection.unwrap(PGConnection.class);
      while (connection.isValid(5)) {
        PGNotification[] some = listener.getNotifications(100);
        for (int i = 0; some != null && i < some.length; ++i) System.out.println("got " + some[i].getParameter());
      }
    }
  }

  public static void main(String[] arguments) throws InterruptedException {
    if (arguments[0].equals("--probe")) return;
    Map<String, String> words = new HashMap<>();
    for (String word : arguments[0].split(" ")) words.put(word.split("=", 2)[0], word.split("=", 2)[1]);
    Properties properties = new Properties();
    properties.setProperty("user", words.get("user"));
    properties.setProperty("socketFactory", "org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg");
    properties.setProperty("socketFactoryArg", words.get("host") + "/.s.PGSQL." + words.get("port"));
    properties.setProperty("sslmode", "disable");
    while (true) {
      try {
        listen("jdbc:postgresql://localhost/" + words.get("dbname"), properties);
        System.out.println("lost");
      } catch (SQLException e) {
        System.out.println("lost " + e.getMessage());
      }
      Thread.sleep(20);
    }
  }
}
